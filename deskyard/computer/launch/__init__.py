"""Starts installed applications and opens files and addresses, and says which window came of it."""
