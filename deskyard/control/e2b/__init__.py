"""The door for E2B's clients: `deskyard_e2b` of the SDK, by itself or as a process of Mission Control."""
