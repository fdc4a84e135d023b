"""Pulumi programs, components and the libvirt provider."""
