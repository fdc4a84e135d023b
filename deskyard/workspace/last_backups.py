"""The note of what was backed up for the end of a workspace: a run that was killed is gone on with by it."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from deskyard.host.places import places
from deskyard.host.secret_file import write_secret


@dataclass(frozen=True)
class LastBackups:
    """The last backups that one run has made, by desktop, and the desktops whose machines went behind theirs.

    Those are all that another run may count: the others ran on, and were written to.
    """

    run: str = ""
    made: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()


def read(site: str, name: str) -> LastBackups:
    """The note of a workspace; an empty one if there is none, or it cannot be read."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return LastBackups(**json.loads(_file(site, name).read_text()))
    return LastBackups()


def write(site: str, name: str, note: LastBackups) -> None:
    """Write the note of a workspace in one step."""
    write_secret(_file(site, name), json.dumps(asdict(note)).encode())


def forget(site: str, name: str) -> None:
    """Remove the note: machines are made anew, and no backup of before is of them."""
    _file(site, name).unlink(missing_ok=True)


def _file(site: str, name: str) -> Path:
    return places().workspace(site, name) / "last-backups.json"
