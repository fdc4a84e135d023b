"""The files in /home of a backup: listed, and brought to a folder of this machine or to a desktop."""
