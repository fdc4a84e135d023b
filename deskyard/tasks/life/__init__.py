"""Tasks of what is kept of desktops: snapshots and backups."""
