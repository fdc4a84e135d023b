"""Backups of domains: their disks as of one moment, a restored one tried out, and its content put back."""
