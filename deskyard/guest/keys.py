"""Runs as root on a desktop: brings its file of keys in step, or says what is in it. It never says a value.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON. Without the whole request it does nothing.
"""

import contextlib
import fcntl
import grp
import hashlib
import hmac
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODE = 0o640
MAX_BYTES = 1 << 20
ASSIGNMENT = re.compile(rb"([A-Z][A-Z0-9_]{0,63})='[^']*'")


def bring(path: Path, group: str, text: str | None) -> str:
    """Make the file what it shall be, in one step; without `text` there shall be none."""
    path.parent.mkdir(mode=0o755, exist_ok=True)
    with alone(path.parent):
        if text is None:
            if not os.path.lexists(path):
                return "unchanged"
            path.unlink()
            return "removed"
        content, gid = text.encode(), grp.getgrnam(group).gr_gid
        if seen(path) == (content, MODE, os.geteuid(), gid):
            return "unchanged"
        draft = path.with_name(f".{path.name}.new")
        draft.unlink(missing_ok=True)
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                os.fchown(handle, os.geteuid(), gid)
                os.fchmod(handle, MODE)
                file.flush()
                os.fsync(handle)
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
        return "changed"


def tell(path: Path, group: str, nonce: str) -> dict[str, Any]:
    """Each variable with a code that only who knows its value can work out, and whether the file is kept as it must."""
    known = seen(path)
    if known is None:
        return {"exists": os.path.lexists(path), "guarded": False, "lines": []}
    content, *guard = known
    lines = [(match[1].decode(), line) for line in content.splitlines() if (match := ASSIGNMENT.fullmatch(line))]
    codes = [(name, hmac.new(nonce.encode(), line, hashlib.sha256).hexdigest()) for name, line in lines]
    return {"exists": True, "guarded": guard == [MODE, os.geteuid(), grp.getgrnam(group).gr_gid], "lines": codes}


def seen(path: Path) -> tuple[bytes, int, int, int] | None:
    """Content, mode, owner and group; nothing if it is no plain file."""
    try:
        # What is no plain file is not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return None
        return file.read(MAX_BYTES), stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other runs out, and what is written on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        os.fsync(handle)
    finally:
        os.close(handle)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked; what goes wrong is said without what was sent."""
    path, group = Path(request["path"]), request["group"]
    try:
        if "nonce" in request:
            return tell(path, group, request["nonce"])
        return {"done": bring(path, group, request["text"])}
    except OSError as error:
        return {"error": f"{error.filename or path}: {error.strerror}"}
    except KeyError:
        return {"error": f"there is no group {group}"}


if __name__ == "__main__":
    try:
        wanted = json.loads(sys.stdin.readline())
    except ValueError:
        sys.exit("the request did not arrive as a whole")
    print(json.dumps(answer(wanted)))
