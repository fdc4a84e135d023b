"""Pulumi programs, components and the provider of our own resources."""
