"""Composes the collections of deskyard/tasks."""
