"""Tasks that change something at this host: who ran which, on what, and how it ended, for Mission Control to take in.

Nobody need read them. Two files hold them, each of a bounded size, and the older one goes when the newer one is full.
Lines have numbers without a gap: whoever reads knows how many went before they were read.
"""

import json
import os
import pwd
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from deskyard.errors import HostError
from deskyard.host.background import start_time
from deskyard.host.lock import alone
from deskyard.host.places import Stamp, places, stamp
from deskyard.host.secret_file import make_folder, opened

RUNNING, DONE, FAILED, INTERRUPTED = "running", "done", "failed", "interrupted"
STATES = (RUNNING, DONE, FAILED, INTERRUPTED)
# Of one file; a line is some 400 bytes long.
MOST_BYTES = 1 << 20
# Of a line: less than the end of a file that is looked at for the last one.
MOST_LINE, TAIL = 8 << 10, 32 << 10
MOST_TEXT = 200
# Of a reason that was cut off somewhere, depending on its numbers.
MOST_GIST = 120
NUMBER = re.compile(r"\d+")
# A failure that lasts is told once a day.
AGAIN_SECONDS = 86_400.0
# Seconds since 1970 of the year 5000: a database knows days until then.
MOST_SECONDS = 95_617_584_000
# Numbers that are the same in JSON, in Python and in a database.
MOST_NUMBER = 1 << 53
LOCK = "changes"
# The account of a process that nobody's login began.
NO_LOGIN = 0xFFFF_FFFF

Option = str | int | None


@dataclass(frozen=True)
class Run:
    """A run of a task: what it was called with, by whom. The value of an option that may be a secret is None."""

    task: str
    workspace: str = ""
    desktop: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    operator: str = field(default_factory=lambda: operator())
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    # The process and when it began: once that is gone the run is over, whatever its last line says.
    process: str = field(default_factory=lambda: process(os.getpid()))


@dataclass(frozen=True)
class Line:
    """A line: how far a run is, and in a failure which field is wrong, and why."""

    spool: str
    number: int
    at: float
    state: str
    run: Run
    field: str = ""
    reason: str = ""

    @classmethod
    def read(cls, text: bytes) -> Self | None:
        """Read a line; None for what is none, as where a writer was killed."""
        try:
            values = json.loads(text)
            line = cls(**{**values, "run": Run(**values["run"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        texts = (line.state, line.field, line.reason)
        run = (line.run.task, line.run.workspace, line.run.desktop, line.run.operator, line.run.id, line.run.process)
        right = all(isinstance(each, str) for each in (line.spool, *texts, *run)) and line.state in STATES
        right = right and line.spool != ""
        right = right and isinstance(line.run.options, dict) and type(line.number) is int
        right = right and isinstance(line.at, (int, float)) and 0 <= line.at < MOST_SECONDS
        return line if right and 0 < line.number < MOST_NUMBER else None


class Spool:
    """The lines of this host's user; whoever adds or reads holds a lock for a moment."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or place()
        self._now, self._before = self._folder / "now.jsonl", self._folder / "before.jsonl"

    def note(self, run: Run, state: str, field: str = "", reason: str = "") -> None:
        """Add a line; it is on the disk when this ends."""
        with alone(LOCK):
            make_folder(self._folder)
            last = self._last(self._now) or self._last(self._before)
            name, number = (last.spool, last.number) if last else (secrets.token_hex(8), 0)
            line = Line(name, number + 1, time.time(), state, run, field[:MOST_TEXT], reason[:MOST_TEXT])
            self._append(_written(line))

    def lines(self) -> list[Line]:
        """The lines that there are, in their order; raises `HostError` while somebody writes."""
        if not self._folder.exists():
            return []
        with alone(LOCK, shared=True, at_once=True):
            return [*_lines(_content(self._before)), *_lines(_content(self._now))]

    def repeats(self, run: Run, field: str, reason: str) -> bool:
        """Whether the last line of this task there tells of the same failure, numbers apart, and is not a day old."""
        with alone(LOCK, shared=True):
            lines = [*_lines(_content(self._before)), *_lines(_content(self._now))]
        last = next((line for line in reversed(lines) if _place(line.run) == _place(run)), None)
        if last is None or last.state != FAILED or not 0 <= time.time() - last.at < AGAIN_SECONDS:
            return False
        return (last.field, _gist(last.reason)) == (field[:MOST_TEXT], _gist(reason))

    def stamp(self) -> Stamp:
        """Stands for the lines that there are: another one, if any was added."""
        return stamp(self._now)

    def _last(self, path: Path) -> Line | None:
        found = [*_lines(_content(path, TAIL))]
        return found[-1] if found else None

    def _append(self, text: bytes) -> None:
        size = self._now.stat().st_size if self._now.exists() else 0
        if size + len(text) > MOST_BYTES:
            self._now.rename(self._before)
            size = 0
        handle = _owned(self._now, opened(self._now, os.O_RDWR | os.O_APPEND))
        try:
            # A killed writer may have left half a line.
            torn = size and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, b"\n" * bool(torn) + text)
            os.fsync(handle)
        finally:
            os.close(handle)
        if not size:
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def place() -> Path:
    """The folder of this user's lines; nobody else enters it."""
    return places().state / "changes"


def operator() -> str:
    """The account of who works at this host: that of the login, else of who called sudo, else of this process."""
    try:
        user = int(Path("/proc/self/loginuid").read_text())
    except (OSError, ValueError):
        user = NO_LOGIN
    if user == NO_LOGIN:
        if name := os.environ.get("SUDO_USER"):
            return name
        user = os.getuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def process(pid: int) -> str:
    """The name of a process that no later one has."""
    return f"{pid}:{start_time(pid)}"


def is_gone(name: str) -> bool:
    """Whether the process that `process` gave this name has ended."""
    pid = name.partition(":")[0]
    return not pid.isdecimal() or len(pid) > len(str(1 << 32)) or process(int(pid)) != name


def _place(run: Run) -> tuple[str, str, str]:
    return run.task, run.workspace, run.desktop


def _gist(reason: str) -> str:
    """A reason without what is another each minute, as the memory that is free."""
    return NUMBER.sub("", reason[:MOST_TEXT])[:MOST_GIST]


def _written(line: Line) -> bytes:
    """The text of a line, whose options are left out if they make it too long."""
    values = asdict(line)
    for name in ("workspace", "desktop", "operator"):
        values["run"][name] = values["run"][name][:MOST_TEXT]
    text = _encoded(values)
    if len(text) > MOST_LINE:
        values["run"]["options"] = {}
        text = _encoded(values)
    return text


def _encoded(values: Mapping[str, Any]) -> bytes:
    # What is no text comes from a command line, where anything may stand.
    return json.dumps(values, ensure_ascii=False).encode(errors="replace") + b"\n"


def _lines(content: bytes) -> Iterator[Line]:
    for text in content.split(b"\n"):
        if len(text) <= MOST_LINE and (line := Line.read(text)) is not None:
            yield line


def _content(path: Path, tail: int | None = None) -> bytes:
    """The content of a file, or its end; nothing of one that is not there, and no more than it may hold."""
    try:
        handle = _owned(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except FileNotFoundError:
        return b""
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        file.seek(max(0, size - (tail or MOST_BYTES)))
        return file.read(tail or MOST_BYTES)


def _owned(path: Path, handle: int) -> int:
    """An open file that nobody but its folder's owner can write; raises `HostError` for another, and closes it.

    Root notes what it does in a user's state there, too.
    """
    found, owner = os.fstat(handle), path.parent.stat().st_uid
    whose = found.st_uid == owner and os.geteuid() in (owner, 0)
    if stat.S_ISREG(found.st_mode) and whose and not found.st_mode & 0o077:
        return handle
    os.close(handle)
    remedy = f"if you know who wrote it: chmod 600 {path}; chown --reference={path.parent} {path}; else remove it"
    raise HostError("changes", str(path), "is not this account's alone", remedy)
