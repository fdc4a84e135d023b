"""Reaches one desktop: programs, keys, and what customises it."""
