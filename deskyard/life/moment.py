"""Moments as a person reads them."""

import time


def minute(seconds: float) -> str:
    """A Unix time in this machine's zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
