"""What happens to one machine of a cluster between its making and its end: power and snapshots."""
