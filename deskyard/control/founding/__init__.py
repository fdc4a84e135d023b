"""Workspaces that are made and destroyed by the API: signed by an admin, declared and removed by the worker."""
