"""What can be done with a whole workspace: preview, up, status, destroy."""
