"""Streams: the screen, a part of it, or one window, as read-only sources of RFB that any number may look at."""
