"""Finds or gets the programs that Deskyard drives."""
