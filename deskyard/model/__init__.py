"""What a person writes: sites, images, workspaces."""
