"""Drives Pulumi's engine: what it plans, does and remembers of a workspace."""
