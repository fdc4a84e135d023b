"""The disk that a build starts from."""
