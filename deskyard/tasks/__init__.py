"""Invoke collections: thin, one topic per module."""
