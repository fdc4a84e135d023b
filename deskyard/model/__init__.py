"""Declarations that a person writes: sites, images, workspaces."""
