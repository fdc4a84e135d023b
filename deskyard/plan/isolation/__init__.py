"""What proves the isolation of a workspace, worked out."""
