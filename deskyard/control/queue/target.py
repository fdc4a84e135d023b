"""How the host's tasks name the desktop of an operation."""

from collections.abc import Mapping
from typing import Any


def desktop_target(wanted: Mapping[str, Any]) -> str:
    """The desktop of an operation as a worker's child gets it, as WORKSPACE/DESKTOP."""
    return str(wanted["desktop"]).replace(".", "/", 1)
