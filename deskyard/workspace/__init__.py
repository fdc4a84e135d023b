"""Tasks with a whole workspace: preview, up, status, destroy."""
