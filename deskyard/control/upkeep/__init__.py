"""The upkeep of a workspace: it is looked at and verified; snapshots, backups, and names that are allowed."""
