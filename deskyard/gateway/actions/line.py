"""A line of HAProxy's log, of a request that acts or reads a recording -> the facts that the audit keeps of it."""

import re
from datetime import UTC, datetime
from typing import Any

from deskyard.wire.actions import HEADER, MOST_HEADER, unpack
from deskyard.wire.routes import COMPUTER, RECORDINGS

MOST_LINE = MOST_HEADER + 2048  # characters: what HAProxy writes at most
HASHED_BYTES = 12 * 1024  # of a body; HAProxy has 16 KiB for it and the headers
# The check under way of a request that wakes its desktop, if that sleeps.
WAKING = "waking"
NOTHING, ILL_FORMED = "-", "!"
LINE = re.compile(
    r"(?P<address>[0-9a-f.:]+):\d+ pid=\d+ method=(?P<method>[A-Z]+)"
    rf" path=/d/(?P<desktop>[a-z][a-z0-9-]{{0,31}})/(?P<place>{COMPUTER.place}|{RECORDINGS})"
    r"(?P<path>/[A-Za-z0-9/_.:-]*)"
    r" status=(?P<status>-?\d+) state=(?P<state>\S+) session=(?P<session>[A-Za-z0-9_-]{16,40})"
    r" server=\S+ check=(?P<check>[a-z-]+)"
    r" ms=\+?(?P<ms>-?\d+)"
    r" action=(?P<at>\d{1,16})/(?P<number>\d+)/(?P<scopes>[a-z,]*)/(?P<bytes>\d+)/(?P<body>[a-z0-9]+)"
    r" claims=(?P<claims>[A-Za-z0-9_-]+|!)"
)


def read(line: str) -> re.Match[str] | None:
    """The parts of a line as they stand there; None of what is no such line."""
    return LINE.fullmatch(line)


def is_unanswered(found: re.Match[str]) -> bool:
    """Whether a request that wakes its desktop ended before there was a connection to it."""
    return found["status"] == "503" and found["state"][1:] == "C" and found["check"] == WAKING


def facts(found: re.Match[str]) -> dict[str, Any]:
    """The facts that are kept of a line, the claims of the desktop last and apart."""
    at = datetime.fromtimestamp(int(found["at"]) / 1000, UTC).isoformat(timespec="milliseconds")
    seen = {
        "session": found["session"],
        "desktop": found["desktop"],
        "route": RECORDINGS if found["place"] == RECORDINGS else COMPUTER.name,
        "scopes": sorted(filter(None, found["scopes"].split(","))),
        "address": found["address"],
        "at": at,
        "number": int(found["number"]),
        "method": found["method"],
        "path": found["path"],
        "status": int(found["status"]),
        "ms": int(found["ms"]),
        "bytes": int(found["bytes"]),
        "body": found["body"],
    }
    return seen | {"claimed": claimed(found["claims"])}


def claimed(text: str) -> dict[str, Any] | str | None:
    """The actions that the desktop claims to have done; a word in their place where nobody can read them."""
    if text == NOTHING:
        return None
    return (unpack(text) if text != ILL_FORMED else None) or f"an ill-formed {HEADER}"
