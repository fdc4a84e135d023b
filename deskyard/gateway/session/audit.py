"""The audit of decisions, a JSON line each; every line holds the hash of the one before. Never a ticket, cookie or key.

`audit.jsonl` grows until it is full and becomes `audit-<number of its first line>.jsonl`; the chain goes on in the next
file. `audit.head` says which lines there must be: the first that is kept, and the last. A collector that remembers the
number and hash of the last line it took can tell later that nothing before it was changed, head file or not.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from deskyard.errors import GatewayError
from deskyard.gateway.machine import room
from deskyard.gateway.machine.room import Unwritable

START = "0" * 64
FULL_BYTES = 8 * 1024 * 1024
KEEP_FILES = 24
LISTINGS = 20  # a file is turned over once in thousands of lines: the second listing is good
# What ends or refuses something happens even if it cannot be written down; what opens something does not.
# What was done by a program on a desktop has happened before the log tells of it.
ENDING = ("action", "actions", "certificate", "clock", "counted", "expire", "halt", "recover", "refuse", "revoke")

Event = tuple[str, Mapping[str, object]]  # what happened, and its facts


@dataclass(frozen=True)
class Head:
    """Which lines there are: from number `first`, whose predecessor had the hash `before`, to `last`."""

    first: int = 1
    before: str = START
    last: int = 0
    hash: str = START


class Audit:
    """Writes the audit; nobody else does."""

    def __init__(self, path: Path, full_bytes: int = FULL_BYTES, keep_files: int = KEEP_FILES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._full_bytes = full_bytes
        self._keep_files = keep_files
        self._head = read_head(path)
        self._missed = 0  # lines that could not be written, of what happened all the same
        self._recover()

    @property
    def last(self) -> tuple[int, str]:
        """Number and hash of the last line; 0 where there is none."""
        return self._head.last, self._head.hash

    def note(self, event: str, **facts: object) -> None:
        """Write down what happened; raises `GatewayError` if that cannot be and the event opens something."""
        self.note_all([(event, facts)])

    def note_all(self, events: Sequence[Event]) -> None:
        """Write down several events with a single wait for the disk; all of them are written, or none."""
        try:
            if self._missed:
                reason = f"{self._missed} lines could not be written"
                self._write([("recover", {"result": "missed", "reason": reason})])
                self._missed = 0
            self._write(events)
        except OSError as error:
            for event, facts in events:
                print(f"audit cannot be written: {error}: {event} {facts}", file=sys.stderr, flush=True)
            if all(event in ENDING for event, _ in events):
                self._missed += len(events)
            elif error.errno in room.FULL:
                raise room.full(self._path.parent) from error
            else:
                remedy = "see `journalctl -k` in the gateway"
                raise Unwritable("audit", str(self._path), f"cannot be written: {error.strerror}", remedy) from error

    def _write(self, events: Sequence[Event]) -> None:
        if self._path.exists() and self._path.stat().st_size >= self._full_bytes:
            self._turn_over()
        moment = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        head, data = self._head, bytearray()
        for event, facts in events:
            number = head.last + 1
            line = json.dumps({"seq": number, "time": moment, "event": event, **facts, "prev": head.hash}).encode()
            head = Head(head.first, head.before, number, digest(line))
            data += line + b"\n"
        # The head's room comes first: a line that the head cannot follow would break the chain at the next start.
        fresh = self._prepared(head)
        self._append(bytes(data))
        self._head = head
        fresh.replace(head_file(self._path))

    def _append(self, data: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        try:
            size = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fdatasync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def _prepared(self, head: Head) -> Path:
        fresh = head_file(self._path).with_suffix(".new")
        fresh.write_text(json.dumps(asdict(head)) + "\n")
        return fresh

    def _turn_over(self) -> None:
        """Begin a new file; drop the oldest one if there are too many."""
        with self._path.open("rb") as stream:
            first = json.loads(stream.readline())["seq"]
        self._path.rename(self._path.with_name(f"{self._path.stem}-{first:012d}.jsonl"))
        kept = files(self._path)
        if len(kept) >= self._keep_files:
            with kept[1].open("rb") as stream:
                oldest = json.loads(stream.readline())
            head = Head(oldest["seq"], oldest["prev"], self._head.last, self._head.hash)
            self._prepared(head).replace(head_file(self._path))
            self._head = head
            kept[0].unlink()

    def _recover(self) -> None:
        """Take up the chain where the last process left it, also if it was cut off within a line."""
        if not files(self._path) and not head_file(self._path).exists():
            # From here on a head that is missing was taken away. On a full disk the first line makes it.
            with contextlib.suppress(OSError):
                self._prepared(self._head).replace(head_file(self._path))
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        whole, _, rest = data.rpartition(b"\n")
        if rest:
            os.truncate(self._path, len(data) - len(rest))
        self._follow(whole.split(b"\n"))
        if rest:
            self.note("recover", result="cut", reason=f"{len(rest)} bytes of an unfinished line were dropped")

    def _follow(self, lines: Sequence[bytes]) -> None:
        """Take up the lines that were written, but are not yet in the head file, which follows with the next batch."""
        fresh: list[bytes] = []
        for line in reversed(lines):
            if _number(line) <= self._head.last:
                break
            fresh.append(line)
        # Without a head there is no telling which lines are new: that it is missing must still show.
        limit = len(fresh) if head_file(self._path).exists() else 1
        for line in fresh[::-1][:limit]:
            if json.loads(line)["prev"] != self._head.hash or _number(line) != self._head.last + 1:
                break  # it was tampered with: the chain goes on from the head, and `verify` names the line
            self._head = Head(self._head.first, self._head.before, _number(line), digest(line))


def _number(line: bytes) -> int:
    """The number of a line; 0 of what is no line of the audit."""
    try:
        event = json.loads(line)
        return int(event["seq"]) if isinstance(event["prev"], str) else 0
    except (ValueError, KeyError, TypeError):
        return 0


def head_file(path: Path) -> Path:
    """Where the head is kept."""
    return path.with_suffix(".head")


def read_head(path: Path) -> Head:
    """The head; that of an empty chain if there is none."""
    try:
        return Head(**json.loads(head_file(path).read_text()))
    except FileNotFoundError:
        return Head()


def files(path: Path) -> list[Path]:
    """All files of the chain, oldest first."""
    turned = sorted(path.parent.glob(f"{path.stem}-*.jsonl"))
    return [*turned, path] if path.exists() else turned


def digest(line: bytes) -> str:
    """The hash of a line, without its end."""
    return hashlib.sha256(line).hexdigest()


def lines(path: Path, since: int = 0) -> Iterator[tuple[Path, int, bytes]]:
    """All lines with their file and their number in it; files that end before the event after `since` are left out."""
    with _opened_after(path, since) as opened:
        for file, stream in opened:
            for number, line in enumerate(_lines_of(stream), 1):
                yield file, number, line


@contextlib.contextmanager
def _opened_after(path: Path, since: int) -> Iterator[Sequence[tuple[Path, BinaryIO]]]:
    """The files, oldest first, without those that end before the event after `since`.

    They are open all at once: one that is turned over later is another by its name, and one that is dropped has none.
    """
    for _ in range(LISTINGS):
        with contextlib.ExitStack() as streams:
            there = files(path)
            try:
                opened = [(file, streams.enter_context(file.open("rb"))) for file in _after(there, since)]
            except FileNotFoundError:
                continue
            if files(path) == there:
                yield opened
                return
    raise GatewayError("audit", str(path), f"was turned over {LISTINGS} times while it was opened", "ask again")


def _after(there: list[Path], since: int) -> list[Path]:
    begun = [number for number, file in enumerate(there) if _first(file) <= since + 1]
    return there[max(begun, default=0) :]


def _lines_of(stream: BinaryIO) -> Iterator[bytes]:
    for line in stream:
        yield line.rstrip(b"\n")


def _first(file: Path) -> float:
    """The number of a file's first event, by its name; without end of the one that grows, which does not say it."""
    number = file.stem.rpartition("-")[2]
    return int(number) if number.isdigit() else math.inf


def each(path: Path, since: int = 0, about: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """The events after number `since` with the facts `about`, the oldest first.

    A line that is no JSON is left to `verify`.
    """
    return _chosen((line for _, _, line in lines(path, since)), since, about)


def events(
    path: Path,
    since: int = 0,
    last: int | None = None,
    about: Mapping[str, str] | None = None,
    first: int | None = None,
) -> list[dict[str, Any]]:
    """The same: all, only the `first` ones, or only the `last` ones. No more is kept than is asked for."""
    if last is None:
        return list(islice(each(path, since, about), first))
    found: deque[dict[str, Any]] = deque()
    # Full files of actions hold a hundred thousand events, the newest one some thousands.
    with _opened_after(path, since) as opened:
        for _, stream in reversed(opened):
            newest = deque(_chosen(_lines_of(stream), since, about), maxlen=max(0, last - len(found)))
            found.extendleft(reversed(newest))
            if len(found) >= last:
                break
    return list(found)


def _chosen(lines: Iterable[bytes], since: int, about: Mapping[str, str] | None) -> Iterator[dict[str, Any]]:
    wanted = (about or {}).items()
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        known = isinstance(event, dict) and event.get("seq", 0) > since
        if known and all(event.get(name) == value for name, value in wanted):
            yield {**event, "hash": digest(line)}
