"""Proofs of a workspace's isolation, worked out."""
