"""Paths as callers give them, and what the system says of them as problems."""

import contextlib
import errno
import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from deskyard.computer.problem import Problem

REMEDY = "give a path below the home, or an absolute one"
MOST_BYTES = 4095

# What the system refuses: the status, the reason, the remedy.
REFUSALS = {
    errno.ENOENT: (HTTPStatus.NOT_FOUND, "does not exist", "list its directory to see what is there"),
    errno.EACCES: (HTTPStatus.FORBIDDEN, "is not open to the desktop's account", "choose a path that the account owns"),
    errno.EPERM: (HTTPStatus.FORBIDDEN, "may not be changed by the desktop's account", "choose a path that it owns"),
    errno.EROFS: (HTTPStatus.FORBIDDEN, "is on a file system that is only read", "choose a path below the home"),
    errno.EEXIST: (HTTPStatus.CONFLICT, "exists already", "choose another name, or say overwrite"),
    errno.ENOTEMPTY: (HTTPStatus.CONFLICT, "is a directory that is not empty", "say recursive, or empty it first"),
    errno.EISDIR: (HTTPStatus.BAD_REQUEST, "is a directory", "name a file in it"),
    errno.ENOTDIR: (HTTPStatus.BAD_REQUEST, "is not a directory", "name a directory"),
    errno.ENAMETOOLONG: (HTTPStatus.BAD_REQUEST, "is too long a name", "choose a shorter one"),
    errno.ELOOP: (HTTPStatus.BAD_REQUEST, "is a link that leads to itself", "name what it should lead to"),
    errno.EXDEV: (HTTPStatus.BAD_REQUEST, "is on another file system", "copy it, and remove the old one"),
    errno.EINVAL: (HTTPStatus.BAD_REQUEST, "cannot be done with this path", "choose another path"),
    errno.EBUSY: (HTTPStatus.CONFLICT, "is in use by the system", "choose another path"),
    errno.ENOSPC: (HTTPStatus.INSUFFICIENT_STORAGE, "does not fit on the disk", "free some space first"),
    errno.EDQUOT: (HTTPStatus.INSUFFICIENT_STORAGE, "exceeds the account's quota", "free some space first"),
}


def resolve(home: Path, path: object, field: str = "path") -> Path:
    """The absolute path that is meant: relative ones start at the home, and so does `~`."""
    if not isinstance(path, str) or not path:
        raise Problem(HTTPStatus.BAD_REQUEST, field, path, "is not a path", REMEDY)
    if "\0" in path:
        raise Problem(HTTPStatus.BAD_REQUEST, field, path, "holds a NUL character", REMEDY)
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise Problem(HTTPStatus.BAD_REQUEST, field, None, "is not a path in UTF-8", REMEDY) from None
    if length > MOST_BYTES:
        raise Problem(HTTPStatus.BAD_REQUEST, field, None, f"is longer than {MOST_BYTES} bytes", "choose a shorter one")
    below_home = path.removeprefix("~").lstrip("/") if path == "~" or path.startswith("~/") else path
    return home / below_home


def shown(path: str) -> str:
    """A path or name of the file system as text: bytes that are no UTF-8, which an answer cannot hold, as escapes."""
    return path.encode("utf-8", "backslashreplace").decode()


@contextlib.contextmanager
def refusals(path: Path, field: str = "path") -> Iterator[None]:
    """Say what the system refuses about a path as a `Problem`."""
    try:
        yield
    except OSError as error:
        unknown = (HTTPStatus.INTERNAL_SERVER_ERROR, error.strerror or "failed", "look at the path in a terminal")
        status, reason, remedy = REFUSALS.get(error.errno or 0, unknown)
        raise Problem(status, field, shown(str(path)), reason, remedy) from error
