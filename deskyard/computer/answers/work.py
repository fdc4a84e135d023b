"""Answers about files and processes."""

from typing import TypedDict


class Entry(TypedDict):
    """A file, directory or link."""

    name: str
    path: str
    type: str
    size: int
    mode: str
    permissions: str
    owner: str
    group: str
    modified: str
    link: str | None


class MarkedEntry(Entry):
    """A file, directory or link, with what of it is content."""

    untrusted: list[str]


class Entries(TypedDict):
    """The content of a directory; `truncated` where there is more."""

    path: str
    entries: list[Entry]
    truncated: bool
    untrusted: list[str]


class Watch(TypedDict):
    """A directory whose changes are events."""

    id: str
    path: str
    recursive: bool


class StartedWatch(Watch):
    """A watch that began; `event` is the number of the last event before it."""

    event: int


class Watches(TypedDict):
    """The directories whose changes are events."""

    watches: list[Watch]


class Kept(TypedDict):
    """Which of a process's output is kept, by positions."""

    start: int
    end: int


class Process(TypedDict):
    """A process that the service started."""

    id: str
    pid: int
    argv: list[str]
    cwd: str
    tag: str | None
    terminal: bool
    started: str
    running: bool
    exit_code: int | None
    signal: str | None
    output: Kept


class StartedProcess(Process):
    """A process that began; `event` is the number of the last event before it."""

    event: int


class Processes(TypedDict):
    """The processes that run, and those that ended lately."""

    processes: list[Process]


class Ran(TypedDict):
    """How a command ended, and the newest of what it said."""

    pid: int
    exit_code: int
    signal: str | None
    stdout: str
    stderr: str
    lost_bytes: int
    timed_out: bool
    untrusted: list[str]


class Taken(TypedDict):
    """How much input was taken."""

    bytes: int
