"""Verifies a workspace's isolation on the machines that run."""
