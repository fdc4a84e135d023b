"""Runs as root on a desktop: brings its file of keys in step, or says what is in it. It never says a value.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON. Without the whole request it does nothing.
"""

import grp
import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Any

from deskyard.guest.request import serve
from deskyard.guest.root_file import alone, put, read

MODE = 0o640
ASSIGNMENT = re.compile(rb"([A-Z][A-Z0-9_]{0,63})='[^']*'")


def bring(path: Path, group: str, text: str | None) -> str:
    """Bring the file in step, in one step; without `text` it is removed."""
    with alone(path.parent):
        return put(path, text, MODE, grp.getgrnam(group).gr_gid if text is not None else None)


def tell(path: Path, group: str, nonce: str) -> dict[str, Any]:
    """Each variable with a code that only who knows its value can work out, and whether the file is kept as it must."""
    found = read(path)
    if found is None:
        return {"exists": os.path.lexists(path), "guarded": False, "lines": []}
    content, *guard = found
    lines = [(match[1].decode(), line) for line in content.splitlines() if (match := ASSIGNMENT.fullmatch(line))]
    codes = [(name, hmac.new(nonce.encode(), line, hashlib.sha256).hexdigest()) for name, line in lines]
    return {"exists": True, "guarded": guard == [MODE, os.geteuid(), grp.getgrnam(group).gr_gid], "lines": codes}


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
    serve(answer)
