"""Programs that make a machine itself where it began as another: on a template's memory, or on another's backup."""
