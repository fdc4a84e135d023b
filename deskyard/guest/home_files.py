"""Runs as the agent of a desktop: takes files that are brought to its home, each whole or not at all.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
lines of JSON, first the request, then what is to be made, and answers each of these with a line; the bytes of a file
come in lines of their own, answered at their end.
"""

import base64
import contextlib
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO


class Content:
    """The bytes of a file as they come; `whole` is known behind the last of them."""

    def __init__(self) -> None:
        self.whole: bool | None = None

    def __iter__(self) -> Iterator[bytes]:
        while self.whole is None:
            # Who sends it may be gone.
            line = json.loads(sys.stdin.readline() or '{"whole": false}')
            if "whole" in line:
                self.whole = bool(line["whole"])
            else:
                yield base64.b64decode(line["data"])


def look(home: Path, top: str) -> dict[str, Any]:
    """The kind of what is at that path in the home, and the bytes that are free there."""
    disk, path = os.statvfs(home), home / top
    folder = path.is_dir() and not path.is_symlink()
    there = "folder" if folder else "other" if path.is_symlink() or path.exists() else ""
    return {"there": there, "free": disk.f_bavail * disk.f_frsize}


def serve(home: Path, force: bool) -> None:
    """Make what is asked for until nobody asks any more."""
    while line := sys.stdin.readline():
        wanted, content = json.loads(line), Content()
        try:
            _make(home / wanted["path"], wanted, content, force)
            answer: dict[str, Any] = {"done": True}
        except OSError as error:
            answer = {"error": os.strerror(error.errno or 0)}
        if wanted["do"] == "file":
            # What could not be written is still on its way.
            for _ in content:
                pass
        print(json.dumps(answer), flush=True)


def _make(path: Path, wanted: dict[str, Any], content: Content, force: bool) -> None:
    if wanted["do"] == "folder":
        if not path.is_dir() or path.is_symlink():
            path.mkdir(wanted["mode"])
        return
    passing = path.parent / f".deskyard-{secrets.token_hex(8)}"
    try:
        if wanted["do"] == "link":
            passing.symlink_to(wanted["to"])
        else:
            _write(passing, wanted, content)
            if not content.whole:
                return
        if force:
            passing.replace(path)
        else:
            # Unlike a renaming this replaces nothing.
            os.link(passing, path, follow_symlinks=False)
    finally:
        with contextlib.suppress(FileNotFoundError):
            passing.unlink()


def _write(path: Path, wanted: dict[str, Any], content: Content) -> None:
    with path.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        fill(file, content)
        os.fchmod(file.fileno(), wanted["mode"])
        file.flush()
        os.utime(file.fileno(), (wanted["changed"], wanted["changed"]))


def fill(file: BinaryIO, pieces: Iterable[bytes]) -> None:
    """Write the pieces of a file one behind another; what is empty stays a hole."""
    for piece in pieces:
        if piece.count(0) == len(piece):
            file.seek(len(piece), os.SEEK_CUR)
        else:
            file.write(piece)
    file.truncate()


if __name__ == "__main__":
    request = json.loads(sys.stdin.readline())
    print(json.dumps(look(Path(request["home"]), request["top"])), flush=True)
    serve(Path(request["home"]), request["force"])
