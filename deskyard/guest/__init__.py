"""Programs that are sent into a desktop or a gateway and run there; they import nothing of Deskyard."""
