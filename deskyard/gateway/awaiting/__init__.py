"""People who wait for a desktop that does not answer: who wants it to start, and how far it is."""
