"""Carries VNC connections, and lets through what its session may do."""
