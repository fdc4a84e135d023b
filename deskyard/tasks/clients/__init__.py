"""The front of doors for the clients of others: `e2b`."""
