"""Resources: what those of every backend have in common."""
