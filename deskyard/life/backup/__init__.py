"""Makes backups of desktops, proves them, and takes desktops back to them."""
