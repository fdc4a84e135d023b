"""What programs do on desktops: a chain beside the audit, of what the door saw and what the desktop claims."""
