"""Mends the state of a workspace whose writing was cut off: the file backend writes it after each step.

Beside each file it writes one of attributes in place, and neither reads nor lists what has them cut off ("EOF").
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from deskyard.declaration.declaration import PROJECT
from deskyard.host.background import is_gone
from deskyard.host.progress import say

SCHEME = "file://"


def mend(backend: str, stack: str) -> bool:
    """Put the state before the last step in the place of one that is cut off; True if that was done.

    What the last step made is then found as what an interrupted run left. Other backends write whole or not at all.
    Nothing is done while a run lives, for it may be writing just now.
    """
    if not backend.startswith(SCHEME):
        return False
    root = Path(backend.removeprefix(SCHEME)).expanduser() / ".pulumi"
    state = root / "stacks" / PROJECT / f"{stack}.json"
    before = state.with_name(f"{state.name}.bak")
    cut_off = [file for file in (state, *_attributes(root, stack)) if file.exists() and not _whole(file)]
    if not cut_off or any(_lives(lock) for lock in _locks(root, stack)):
        return False
    for file in cut_off:
        if file is not state:
            # Without them the file has the usual ones: they say nothing about its content.
            file.unlink()
    if state not in cut_off:
        return True
    if before.exists() and not _whole(before):
        return False
    cut = state.with_name(f"{state.name}.cut-off")
    shutil.copy2(state, cut)
    if before.exists():
        shutil.copy2(before, state)
    else:
        # The first step of all was cut off: there was no state yet.
        state.unlink()
    say(f"    the writing of the state was cut off: the one before is back, what was there is {cut.name}")
    return True


def _whole(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text()), dict)
    except ValueError:
        return False


def _attributes(root: Path, stack: str) -> Iterator[Path]:
    """The attributes of all files read or listed for this stack: the backend's own, its states, its history."""
    yield root / "meta.yaml.attrs"
    for name in (f"{stack}.json", f"{stack}.json.bak"):
        yield root / "stacks" / PROJECT / f"{name}.attrs"
    for kind in ("backups", "history", "locks/organization"):
        yield from (root / kind / PROJECT / stack).glob("*.attrs")


def _locks(root: Path, stack: str) -> Iterator[Path]:
    yield from (root / "locks" / "organization" / PROJECT / stack).glob("*.json")


def _lives(lock: Path) -> bool:
    """Whoever holds the lock may be another machine's; only a process of this one is known to be gone."""
    try:
        held = json.loads(lock.read_text())
        return not is_gone(held["hostname"], int(held["pid"]))
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        return True
