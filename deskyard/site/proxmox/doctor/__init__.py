"""Examines a cluster without changing anything."""
