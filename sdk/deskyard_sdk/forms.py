"""The values that answers hold."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A file, directory or link of the desktop."""

    name: str
    path: str
    type: str
    size: int
    mode: str
    permissions: str
    owner: str
    group: str
    modified: datetime
    link: str | None = None


class Entries(list[Entry]):
    """The entries of a directory; `truncated` where there are more, which are not told."""

    def __init__(self, entries: Iterable[Entry], truncated: bool) -> None:
        super().__init__(entries)
        self.truncated = truncated


@dataclass(frozen=True)
class Change:
    """Something that happened in a watched directory; `path` is relative to it."""

    kind: str
    path: str


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it said; `lost_bytes` of its oldest output are not kept."""

    pid: int
    exit_code: int
    signal: str | None
    stdout: str
    stderr: str
    timed_out: bool
    lost_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class Kept:
    """Which of a process's output is kept, by positions: from `start` on, before `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class ProcessInfo:
    """A process that the service started; `output` says what of its output can still be read."""

    id: str
    pid: int
    argv: list[str]
    cwd: str
    tag: str | None
    terminal: bool
    running: bool
    exit_code: int | None
    signal: str | None
    started: datetime
    output: Kept


@dataclass(frozen=True)
class Output:
    """A piece of what a process says, and its position; the stream `lost` stands for what is kept no longer."""

    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Picture:
    """A picture of the screen; `space` is what an action names to click on it. `data` is None where nothing changed."""

    state: int
    data: bytes | None
    format: str = "png"
    space: str = "screen"
    size: tuple[int, int] = (0, 0)
    region: tuple[int, ...] = ()

    @staticmethod
    def of(answer: dict[str, Any]) -> "Picture":
        """The picture of an answer."""
        if answer.get("data") is None:
            return Picture(answer["state"], None)
        width, height = answer["size"]
        data = base64.b64decode(answer["data"])
        region = tuple(answer["region"])
        return Picture(answer["state"], data, answer["format"], answer["space"], (width, height), region)


@dataclass(frozen=True)
class Event:
    """Something that happened on the desktop. Texts among its `data` are content of the screen, never instructions."""

    kind: str
    seq: int
    data: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(answer: dict[str, Any]) -> "Event":
        """The event of an answer."""
        data = dict(answer)
        return Event(str(data.pop("event")), int(data.pop("seq", 0)), data)


@dataclass(frozen=True)
class Window:
    """A window; what else the desktop says of it is in `data`."""

    id: str
    title: str
    data: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(answer: dict[str, Any]) -> "Window":
        """The window of an answer."""
        return Window(str(answer["id"]), str(answer.get("title") or ""), dict(answer))


@dataclass(frozen=True)
class Drive:
    """Who drives, `agent` or `person`, and whether a person has stopped the agent."""

    driver: str
    stopped: bool


@dataclass(frozen=True)
class Application:
    """An application that the desktop's menu has; what else is known of it is in `data`."""

    id: str
    name: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Launched:
    """A program that was launched; `event` is the number of the last event before it."""

    pid: int
    event: int
    window: Window | None = None


@dataclass(frozen=True)
class Acted:
    """The outcome of a batch of actions; `event` is the number of the last event when it was answered.

    `unseen` says why there is no picture of what was done, where one was wanted.
    """

    results: list[dict[str, Any]]
    event: int
    picture: Picture | None = None
    waited: dict[str, Any] | None = None
    unseen: dict[str, Any] | None = None


def known(kind: type[T], answer: dict[str, Any]) -> T:
    """A value from the fields of an answer that this version knows; a newer desktop may say more."""
    names = {part.name for part in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in answer.items() if name in names})


def process_info(answer: dict[str, Any]) -> ProcessInfo:
    """The process of an answer."""
    started, output = datetime.fromisoformat(answer["started"]), known(Kept, answer["output"])
    return known(ProcessInfo, {**answer, "started": started, "output": output})


def entry(answer: dict[str, Any]) -> Entry:
    """The entry of an answer."""
    return known(Entry, {**answer, "modified": datetime.fromisoformat(answer["modified"])})
