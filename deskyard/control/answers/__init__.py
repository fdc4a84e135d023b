"""Answers that are given again to a request that is sent again, where it makes no operation."""
