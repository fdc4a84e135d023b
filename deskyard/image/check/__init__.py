"""Checks a built disk: what is in it, and what it does once booted."""
