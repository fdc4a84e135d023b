"""Machine time and its cost, and whether anybody sees the machines whose time it is."""
