"""Declarations of users, with their site and Plan."""
