"""What keeps a workspace well: it is looked at and verified; snapshots, backups, and names that are allowed."""
