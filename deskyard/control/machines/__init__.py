"""Halts a desktop's machine and lets it go on, and gives it the system of a newer image, as the host's tasks do."""
