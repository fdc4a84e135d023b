"""How long conversations are kept, as an admin signed, and the end of those that are older."""
