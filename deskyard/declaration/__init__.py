"""What a user declared, with its site and its Plan."""
