"""Desktops for a task: wanted by programs and people, given by the worker, and gone with all their data at the end."""
