"""Runs inside the gateway."""
