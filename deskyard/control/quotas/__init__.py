"""Quotas: how much a workspace, a person or a key may have, counted where a desktop is admitted."""
