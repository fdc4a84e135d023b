"""E2B's envd protocol as a second face of the same files and processes, so that E2B's own clients work unchanged."""
