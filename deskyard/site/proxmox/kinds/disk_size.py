"""The size of a disk of a cluster: read from the configuration of its machine, and never smaller."""

import re
from collections.abc import Mapping
from typing import Any

SIZE = re.compile(r"(?:^|,)size=(\d+)([KMGT]?)(?:,|$)")
BYTES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def size_of(drive: str) -> int:
    """The bytes of a disk, as the configuration has it; 0 if it does not say."""
    found = SIZE.search(drive)
    return int(found[1]) * BYTES[found[2]] if found else 0


def refuse_smaller(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    """The refusal of a smaller size in the inputs of a resource: what lies at the end of a disk would be lost."""
    before, wanted = old.get(name), new.get(name)
    if isinstance(before, int) and isinstance(wanted, int) and wanted < before:
        return [(name, f"a disk of {before} GiB cannot shrink to {wanted} GiB -> choose a larger tier")]
    return []


def disk_size_gib(config: Mapping[str, Any], disk: str) -> int:
    """The size of a machine's disk, whole GiB; 0 if it has no such disk."""
    return size_of(str(config.get(disk, ""))) // BYTES["G"]
