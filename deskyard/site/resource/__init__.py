"""What the resources of every backend have in common."""
