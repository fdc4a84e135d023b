"""The chain of the audit: each line's hash covers the hash of the line before."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from deskyard.control.store.connection import Link

START = bytes(32)
COLUMNS = "number, at, actor, action, target, detail, hash"
LINES_FROM = f"select {COLUMNS} from audit_entry where number >= %s order by number".encode()
# Lines that are read and checked at a time.
LINES = 2000
# Made once: json.dumps makes a new encoder for each line.
_ENCODED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True)
class Verdict:
    """Whether the audit is whole: how many lines, the hash of the last, and the first that is wrong."""

    ok: bool
    entries: int
    head: str
    problem: str | None = None


def line_hash(before: bytes, entry: Mapping[str, Any]) -> bytes:
    """The hash of an entry after the one with the hash `before`."""
    parts = [
        *(entry["number"], entry["at"].astimezone(UTC).isoformat(timespec="microseconds")),
        *(entry["actor"], entry["action"], entry["target"], entry["detail"]),
    ]
    return hashlib.sha256(before + _ENCODED(parts).encode()).digest()


NOTHING = Verdict(True, 0, START.hex())


def verify_all(link: Link) -> Verdict:
    """Check the whole audit as one moment has it, a part at a time: its length costs no memory."""
    return verify_after(link, NOTHING)


def verify_after(link: Link, known: Verdict) -> Verdict:
    """Check what stands behind the last line that is known, and that this one has the same hash, in the same way."""
    number, head = known.entries, known.head
    with link.transaction(), link.cursor("audit") as cursor:
        cursor.itersize = LINES
        cursor.execute(LINES_FROM, [number])
        last = cursor.fetchone() if number else None
        if number and (last is None or last["number"] != number):
            return Verdict(False, number, head, f"line {number} is missing")
        if last is not None and bytes(last["hash"]).hex() != head:
            return Verdict(False, number, head, f"line {number} was changed")
        return verify(cursor, number, bytes.fromhex(head))


def verify(entries: Iterable[Mapping[str, Any]], number: int = 0, before: bytes = START) -> Verdict:
    """Check entries in their order, from the first on or from after line `number` with the hash `before`."""
    count = number
    for entry in entries:
        if entry["number"] != count + 1:
            return Verdict(False, count, before.hex(), f"line {count + 1} is missing")
        if bytes(entry["hash"]) != line_hash(before, entry):
            return Verdict(False, count, before.hex(), f"line {entry['number']} was changed")
        before, count = bytes(entry["hash"]), count + 1
    return Verdict(True, count, before.hex())
