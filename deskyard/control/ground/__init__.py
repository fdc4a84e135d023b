"""The ground of each process of Mission Control: its folder, account and settings, and how it is confined."""
