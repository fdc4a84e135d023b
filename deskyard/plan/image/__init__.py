"""Images worked out: what they are made from."""
