"""Anchors: the last lines of other chains, such as Mission Control's audit, written down in this gateway's audit.

Whoever rewrites the other chain afterwards cannot rewrite what stands here, in a chain of another machine. Only root
of the gateway, and so its host, can ask for an anchor. The other chain only grows: an anchor that goes backwards, or
gives a line another hash, is refused and the refusal is written down.
"""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.session.audit import Audit, digest, lines

EVENT = "anchor"
MARK = b'"event": "anchor"'
SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
HEAD = re.compile(r"[0-9a-f]{64}", re.ASCII)
ACTOR = re.compile(r"[A-Za-z0-9._@-]{1,64}", re.ASCII)
MOST = 2**63 - 1
SOURCES = 16  # that one gateway takes anchors of
PERIOD_SECONDS = 300.0  # in which a source adds one line, and one refusal


class Anchors:
    """Takes anchors; what the audit holds of them is read when the first is asked for."""

    def __init__(self, audit: Audit, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._audit = audit
        self._path = path
        self._clock = clock
        self._last: dict[str, tuple[int, str]] | None = None
        self._next: dict[tuple[str, str], float] = {}  # by event and source: when the next may be written

    def add(self, source: object, number: object, head: object, actor: object) -> dict[str, Any]:
        """Write an anchor down; raises `GatewayError` if it is malformed, goes backwards or comes too soon."""
        place, line = checked(source, number, head, actor)
        last = self._known()
        before = last.get(place)
        if before == line:
            return _answer(place, line, written=False)
        if before and line[0] <= before[0]:
            raise self._refusal(place, line, before, str(actor))
        if before is None and len(last) >= SOURCES:
            raise GatewayError("source", place, f"is one more than {SOURCES}", "anchor the chains known here")
        if not self._may_write(EVENT, place):
            reason = f"the last anchor of {place} is not {PERIOD_SECONDS:.0f} s old"
            raise GatewayError("rate", None, reason, "anchor the chain's last line later")
        self._audit.note(EVENT, source=place, number=line[0], head=line[1], by=str(actor), result="written")
        self._took(EVENT, place)
        last[place] = line
        return _answer(place, line, written=True)

    def _known(self) -> dict[str, tuple[int, str]]:
        if self._last is None:
            found = [event for event in held(self._path) if is_anchor(event)]
            self._last = {event["source"]: (event["number"], event["head"]) for event in found}
        return self._last

    def _refusal(self, source: str, line: tuple[int, str], before: tuple[int, str], actor: str) -> GatewayError:
        if line[0] == before[0]:
            field, value, reason = "head", line[1], f"line {line[0]} of {source} was anchored as {before[1]}"
        else:
            field, value, reason = "number", str(line[0]), f"is below line {before[0]} of {source}, anchored before"
        if self._may_write("refuse", source):
            facts = {"source": source, "number": line[0], "head": line[1], "by": actor}
            self._audit.note("refuse", **facts, route=EVENT, result="refused", reason=field)
            self._took("refuse", source)
        return GatewayError(field, value, reason, f"find out who rewrote the chain of {source}")

    def _may_write(self, event: str, source: str) -> bool:
        return self._clock() >= self._next.get((event, source), float("-inf"))

    def _took(self, event: str, source: str) -> None:
        self._next[event, source] = self._clock() + PERIOD_SECONDS


def checked(source: object, number: object, head: object, actor: object) -> tuple[str, tuple[int, str]]:
    """The source and its line; raises `GatewayError` naming what is malformed."""
    texts = (
        ("source", source, SOURCE, "is no name of a chain", "use a-z, 0-9, dots and hyphens, at most 63"),
        ("head", head, HEAD, "is no SHA-256", "give the hash as 64 digits of 0-9 and a-f"),
        ("actor", actor, ACTOR, "is no actor's name", "use letters, digits, and . _ @ -, at most 64"),
    )
    for field, value, pattern, reason, remedy in texts:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise GatewayError(field, str(value)[:80], reason, remedy)
    if type(number) is not int or not 1 <= number <= MOST:
        raise GatewayError("number", str(number)[:80], "is no number of a line", "count lines from 1")
    return str(source), (number, str(head))


def held(path: Path, source: str | None = None, last: int | None = None) -> list[dict[str, Any]]:
    """The anchors that the audit holds, oldest first, of all sources or one; at most the `last` ones."""
    found = [event for _, _, event in _placed(path) if source in (None, event.get("source"))]
    return found if last is None else found[-last:]


def problems(path: Path) -> list[tuple[str, int, str]]:
    """File, line and fault of each anchor that is wrong among the others: each source's chain only grows."""
    found, last = list[tuple[str, int, str]](), dict[str, int]()
    for file, at, event in _placed(path):
        if not is_anchor(event):
            found.append((file.name, at, "is no anchor"))
            continue
        source, number = event["source"], event["number"]
        if number <= last.get(source, 0):
            found.append((file.name, at, f"anchors line {number} of {source} after line {last[source]}"))
        last[source] = max(number, last.get(source, 0))
    return found


def _placed(path: Path) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    for file, at, line in lines(path):
        # The service waits for this at the first anchor: only the lines that may be anchors are parsed.
        if MARK not in line:
            continue
        with contextlib.suppress(ValueError):  # a line that is no JSON is left to `verify`
            event = json.loads(line)
            if isinstance(event, dict) and event.get("event") == EVENT:
                yield file, at, {**event, "hash": digest(line)}


def is_anchor(event: dict[str, Any]) -> bool:
    """Whether a line of the audit holds an anchor as `add` writes it."""
    try:
        checked(event.get("source"), event.get("number"), event.get("head"), event.get("by"))
    except GatewayError:
        return False
    return True


def _answer(source: str, line: tuple[int, str], *, written: bool) -> dict[str, Any]:
    return {"source": source, "number": line[0], "head": line[1], "written": written}
