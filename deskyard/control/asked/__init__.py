"""Requests that change nothing and are lines of the audit all the same: refused ones, and those that read secrets."""
