"""Files and processes of the desktop, for whoever holds the scopes `files` and `shell`."""
