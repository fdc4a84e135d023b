"""The steps, in their order; each is SQL beside a few lines that run it."""
