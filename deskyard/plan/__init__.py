"""Pure functions from the model to the Plan."""
