"""Desktops for a task: the seats at which they are made, and who has which."""
