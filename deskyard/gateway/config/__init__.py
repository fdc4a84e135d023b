"""Puts the settings of a gateway into force."""
