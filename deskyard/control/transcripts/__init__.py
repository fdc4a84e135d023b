"""Conversations written down to be kept elsewhere: one, or all of a workspace."""
