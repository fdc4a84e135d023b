"""Programs that are sent into a desktop and run there; they import nothing of Deskyard."""
