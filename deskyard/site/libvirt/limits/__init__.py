"""Limits of this host can hold: the caps of tiers that its kernel enforces, and memory for machines that start."""
