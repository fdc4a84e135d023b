"""Talks to a Proxmox VE cluster through its API: nothing here starts a process."""
