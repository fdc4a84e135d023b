"""Asks the gateway of a workspace: links, sessions, egress."""
