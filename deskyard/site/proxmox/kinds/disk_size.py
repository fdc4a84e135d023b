"""Reads how large a disk is from the configuration of a machine on a cluster."""

import re
from collections.abc import Mapping
from typing import Any

SIZE = re.compile(r"(?:^|,)size=(\d+)([KMGT]?)(?:,|$)")
BYTES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def size_of(drive: str) -> int:
    """The bytes of a disk, as the configuration has it; 0 if it does not say."""
    found = SIZE.search(drive)
    return int(found[1]) * BYTES[found[2]] if found else 0


def disk_size_gib(config: Mapping[str, Any], disk: str) -> int:
    """The size of a machine's disk, whole GiB; 0 if it has no such disk."""
    return size_of(str(config.get(disk, ""))) // BYTES["G"]
