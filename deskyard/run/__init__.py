"""The only code that starts processes or talks to the machine."""
