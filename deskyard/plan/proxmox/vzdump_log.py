"""The log of a task of vzdump: which volume it made, which notes that was to have, and whether it got them. Pure.

Read in pve-manager 14a22df3 (PVE/VZDump.pm: exec_backup, exec_backup_task) and pve-guest-common 4a8f6cbf
(PVE/VZDump/Common.pm, command_line; PVE/VZDump/Plugin.pm, debugmsg). Where notes cannot be written the task only warns.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

_BEGINS = "INFO: starting new backup job: vzdump "
_MAKES = re.compile(r"INFO: creating (?P<place>vzdump|Proxmox Backup Server) archive '(?P<target>[^']+)'")
_NOTES, _NO_NOTES = "INFO: adding notes to backup", "WARN: unable to add notes"


@dataclass(frozen=True)
class Made:
    """The volume that a task made, the notes that it was told to write, and whether it has written them."""

    volume: str
    notes: str
    is_noted: bool


def made(lines: Sequence[str], *, ended_well: bool) -> Made | None:
    """Read what a task made; none if its log does not say so, or it was told to write no notes."""
    begun = next((line.removeprefix(_BEGINS) for line in lines if line.startswith(_BEGINS)), "")
    target = next(filter(None, map(_MAKES.fullmatch, lines)), None)
    options = _options(begun)
    storage, notes = options.get("--storage"), options.get("--notes-template")
    if target is None or storage is None or notes is None:
        return None
    name = PurePosixPath(target["target"]).name if target["place"] == "vzdump" else target["target"]
    failed = any(line.startswith(_NO_NOTES) for line in lines)
    return Made(f"{storage}:backup/{name}", notes, ended_well and not failed and _NOTES in lines)


def _options(command: str) -> dict[str, str]:
    """The options of a command line, each with its value."""
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    return {word: value for word, value in pairwise(words) if word.startswith("--")}
