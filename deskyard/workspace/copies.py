"""The notes of desktops that are being made of another one's backup: a run that was killed is gone on with by them."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from deskyard.host.places import places
from deskyard.host.secret_file import write_secret


@dataclass(frozen=True)
class Begun:
    """A copy that has begun: of which desktop and backup; whether the new desktop has its content, and is not well yet.

    Until then nothing in the new desktop is anybody's.
    """

    source: str
    backup: str
    has_content: bool = False


def read(site: str, workspace: str, desktop: str) -> Begun | None:
    """The note of a desktop; None if it is no copy, or a whole one."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return Begun(**json.loads(_file(site, workspace, desktop).read_text()))
    return None


def write(site: str, workspace: str, desktop: str, begun: Begun) -> None:
    """Write the note of a desktop in one step."""
    write_secret(_file(site, workspace, desktop), json.dumps(asdict(begun)).encode())


def forget(site: str, workspace: str, desktop: str) -> None:
    """The copy is whole, or the desktop is gone."""
    _file(site, workspace, desktop).unlink(missing_ok=True)


def _file(site: str, workspace: str, desktop: str) -> Path:
    return places().workspace(site, workspace) / f"copy-{desktop}.json"
