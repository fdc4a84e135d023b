"""The chat on a desktop's page: passed on to Mission Control and back; nothing of it is kept in a gateway."""
