"""Recording: the screen of a desktop that asks for it, as files that others can play, and what was done beside it."""
