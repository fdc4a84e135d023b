"""A snapshot of a desktop: its name, what it holds, and until when it is kept. Pure: both backends keep it as text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deskyard.errors import ConfigError

# Each keeps the clusters that were written since, and the memory if that is in it; a disk with many gets slow.
MOST = 8
# What both hypervisors take as a name: Proxmox VE `[a-z][a-z0-9_-]+` of at most 40 characters (pve-configid).
NAME = re.compile(r"[a-z][a-z0-9-]{0,38}[a-z0-9]")
# Proxmox VE lists the machine as it is now as `current`, and keeps `pending` for changes that wait for a start.
RESERVED = ("current", "pending")
MOST_TEXT = 200
EXPIRES = "expires:"


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as it is kept; `made` and `expires` are Unix times."""

    name: str
    text: str = ""
    expires: int | None = None
    memory: bool = False
    made: int = 0
    parent: str | None = None
    current: bool = False
    # It is not whole, or not yet: nothing goes back to it.
    interrupted: bool = False

    @property
    def description(self) -> str:
        """The description that the hypervisor keeps: the owner's text, and a line that says when it expires."""
        lines = [self.text] if self.text else []
        return "\n".join([*lines, f"{EXPIRES} {self.expires}"] if self.expires is not None else lines)

    def described(self, description: str) -> "Snapshot":
        """With the text and the expiry of a description."""
        text, _, last = description.rstrip().rpartition("\n")
        word, _, number = last.partition(" ")
        if word == EXPIRES and number.isascii() and number.isdigit():
            return replace(self, text=text, expires=int(number))
        return replace(self, text=description)

    def is_over(self, now: float) -> bool:
        """Whether it need not be kept any more."""
        return self.expires is not None and self.expires <= now


def check(wanted: Snapshot, present: Sequence[Snapshot], target: str) -> None:
    """Raise `ConfigError` for a snapshot that cannot be had."""
    if not NAME.fullmatch(wanted.name):
        reason = "is no name of a snapshot"
        raise ConfigError("name", wanted.name, reason, "2 to 40 lower-case letters, digits and hyphens, a letter first")
    if wanted.name in RESERVED:
        raise ConfigError("name", wanted.name, "is a reserved name", f"take another name than {' and '.join(RESERVED)}")
    if len(wanted.text) > MOST_TEXT or not wanted.text.isprintable():
        raise ConfigError("text", wanted.text, "is no short text", f"give one line of at most {MOST_TEXT} characters")
    if wanted.name in [snapshot.name for snapshot in present]:
        raise ConfigError("name", wanted.name, f"{target} has it already", f"./inv snapshot.list {target}")
    if len(present) >= MOST:
        oldest = min(present, key=lambda snapshot: snapshot.made)
        reason = f"{target} has {len(present)} already, and {MOST} is the most"
        remedy = f"./inv snapshot.delete {target} {oldest.name}"
        raise ConfigError("snapshot", wanted.name, reason, remedy)


def oldest_first(found: Sequence[Snapshot]) -> list[Snapshot]:
    """In the order in which they were taken; of those of the same second a parent is before its children."""
    parents = {snapshot.name: snapshot.parent for snapshot in found}

    def depth(name: str | None) -> int:
        above = 0
        while name in parents and above < len(parents):
            name, above = parents[name], above + 1
        return above

    return sorted(found, key=lambda snapshot: (snapshot.made, depth(snapshot.name)))


def find(name: str, present: Sequence[Snapshot], target: str) -> Snapshot:
    """The snapshot of that name; raises `ConfigError` with those that are there."""
    for snapshot in present:
        if snapshot.name == name:
            return snapshot
    names = ", ".join(snapshot.name for snapshot in present) or "none"
    raise ConfigError("snapshot", name, f"{target} has no such snapshot", f"take one of these: {names}")
