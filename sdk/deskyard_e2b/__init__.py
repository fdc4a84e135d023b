"""A door for E2B's own clients: `python -m deskyard_e2b` answers them with the desktops of a Mission Control."""
