"""Stops a desktop's agent where it stands, and lets it go on: wanted by people, done by the worker, kept for all."""
