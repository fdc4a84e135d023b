"""Durations as people write them: 90s, 30m, 8h, 2d."""

import re

DURATION = re.compile(r"(?P<number>[1-9]\d{0,5})(?P<unit>[smhd])\Z")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> int:
    """A duration in seconds; raises `ValueError` for what is none."""
    match = DURATION.match(text)
    if match is None:
        raise ValueError("is no duration -> write a number and s, m, h or d, such as 8h")
    return int(match["number"]) * UNITS[match["unit"]]
