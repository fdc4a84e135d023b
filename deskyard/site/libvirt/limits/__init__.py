"""The limits of this host: which caps of tiers its kernel enforces, and the memory for machines that start."""
