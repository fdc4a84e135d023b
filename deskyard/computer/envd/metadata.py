"""Metadata that E2B's clients attach to a file: extended attributes below `user.e2b.`."""

import errno
import os
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from deskyard.computer.problem import Problem
from deskyard.computer.work.paths import refusals, shown

HEADER = "x-metadata-"
SPACE = "user.e2b."
MOST_NAME = 246
MOST_BYTES = 4096


def asked(headers: Mapping[str, str]) -> dict[str, str]:
    """The notes that a request's headers bring."""
    notes = {name.removeprefix(HEADER): text for name, text in headers.items() if name.startswith(HEADER)}
    size = sum(len(SPACE) + len(name) + len(text) for name, text in notes.items())
    printable = all(" " <= char <= "~" for name, text in notes.items() for char in name + text)
    if not printable or any(not name or len(name) > MOST_NAME for name in notes) or size > MOST_BYTES:
        reason = f"is not printable ASCII of at most {MOST_BYTES} bytes in all"
        raise Problem(HTTPStatus.BAD_REQUEST, "metadata", None, reason, "shorten it, or write it to a file")
    return notes


def replace(file: int, path: Path, notes: Mapping[str, str]) -> None:
    """Give an open file these notes, and no others."""
    with refusals(path, "metadata"):
        for name in _names(file):
            if name.removeprefix(SPACE) not in notes:
                os.removexattr(file, name)
        for name, text in notes.items():
            os.setxattr(file, f"{SPACE}{name}", text.encode())


def read(path: Path) -> dict[str, str]:
    """The notes beside a file; none where its file system keeps none."""
    try:
        notes = {name: os.getxattr(path, name).decode(errors="replace") for name in _names(path)}
    except OSError:
        return {}
    return {shown(name.removeprefix(SPACE)): text for name, text in notes.items()}


def _names(file: int | Path) -> list[str]:
    try:
        return [name for name in os.listxattr(file) if name.startswith(SPACE)]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise
