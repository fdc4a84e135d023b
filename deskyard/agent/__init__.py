"""Gives the agent of a desktop its tasks."""
