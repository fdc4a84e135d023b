"""The life of a machine of a cluster between its making and its end: power and snapshots."""
