"""Reaches one desktop: programs, keys, the cap of its processes, and what customises it."""
