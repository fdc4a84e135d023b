"""The Plan of a workspace on a cluster."""
