"""The text that a machine wrote to its serial console goes with it: the next one of its name is not to show it."""

import re
from contextlib import suppress
from pathlib import Path

from deskyard.site.libvirt import documents


def path(machine: str) -> Path:
    """The file of a machine, which virtlogd writes."""
    return Path(documents.console_log(machine))


def remove(machine: str) -> None:
    """Remove the file of a machine, and its older parts (`.0`, `.1`, ...); fine if there is none, or not as root."""
    newest = path(machine)
    parts = re.compile(rf"{re.escape(newest.name)}(\.\d+)?")
    with suppress(OSError):
        for found in newest.parent.iterdir():
            if parts.fullmatch(found.name):
                found.unlink(missing_ok=True)
