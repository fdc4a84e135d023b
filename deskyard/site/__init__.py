"""A hypervisor estate: its keys, its authority, the way to its machines."""
