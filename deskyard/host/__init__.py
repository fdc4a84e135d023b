"""This machine: its processes, places, locks and progress."""
