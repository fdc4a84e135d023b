"""Builds an image from its sources."""
