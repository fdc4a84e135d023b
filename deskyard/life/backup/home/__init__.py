"""What is in the /home of a backup: looked at, and brought to a folder of this machine."""
