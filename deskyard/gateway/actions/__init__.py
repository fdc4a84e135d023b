"""The log of programs' actions on desktops: a chain beside the audit, of what the door saw and the desktop claims."""
