"""Desktops that nobody uses are stopped, and started again for who wants them."""
