"""Answers about the screen: pictures, batches of actions, windows, the clipboard, and who drives."""

from typing import Literal, NotRequired, TypedDict

from deskyard.computer.answers.answered import Happened, Refusal


class Unchanged(TypedDict):
    """No picture: nothing was drawn since the state that was named."""

    state: int
    changed: Literal[False]


class Pictured(TypedDict):
    """A picture in base64; `space` is what an action names to click on it."""

    state: int
    changed: Literal[True]
    id: str
    space: str
    size: list[int]
    region: list[int]
    scale: float
    format: str
    data: str
    untrusted: list[str]


class Effect(TypedDict, total=False):
    """The effects of an action that are told beside that it is done."""

    characters: int
    read_back: str
    event: Happened


class Result(Effect):
    """The outcome of one action: what it did, or what was wrong with it."""

    action: int
    type: str
    ok: bool
    error: NotRequired[str]
    value: NotRequired[str]
    reason: NotRequired[str]
    remedy: NotRequired[str]


class Acted(TypedDict):
    """The outcome of a batch; where an action failed, with what was wrong, and then `ok` is false."""

    results: list[Result]
    ok: bool
    driver: str
    event: int
    id: NotRequired[str]
    wait: NotRequired[Happened | Refusal]
    picture: NotRequired[Pictured | Unchanged | None]
    unseen: NotRequired[Refusal]
    error: NotRequired[str]
    value: NotRequired[str]
    reason: NotRequired[str]
    remedy: NotRequired[str]


# `class` is no name that a class could have.
Window = TypedDict(
    "Window",
    {
        "id": int,
        "pid": int | None,
        "class": str,
        "instance": str,
        "title": str,
        "geometry": list[int],
        "frame": list[int],
        "state": list[str],
        "kind": str,
        "transient_for": int | None,
    },
)


class ListedWindow(Window):
    """A window with its place in the stack, and whether it is in front."""

    stacking: int
    focused: bool


class Windows(TypedDict):
    """The windows, the topmost last."""

    windows: list[ListedWindow]
    untrusted: list[str]
    event: int


class Placed(TypedDict):
    """Where a window was put."""

    id: int
    geometry: list[int]


class Tiled(TypedDict):
    """Where each window was put."""

    ok: bool
    windows: list[Placed]
    event: int


class ClipboardText(TypedDict):
    """The clipboard's text."""

    text: str
    untrusted: list[str]


class Pixel(TypedDict):
    """A place, in pixels of the screen."""

    x: int
    y: int


class Driver(TypedDict):
    """Who drives, and whether a person has stopped the agent."""

    driver: str
    stopped: bool
    event: int


class Driving(Driver):
    """Who drives, and where the pointer is: null while a person wants privacy, and where the X server does not say."""

    pointer: Pixel | None


class Private(TypedDict):
    """Whether a person wants privacy."""

    on: bool


class LetGo(TypedDict):
    """How many keys and buttons came up."""

    let_go: int


class Application(TypedDict):
    """An application of the desktop's menu."""

    id: str
    name: str
    comment: str
    categories: list[str]
    types: list[str]


class Applications(TypedDict):
    """The applications of the desktop's menu."""

    applications: list[Application]
    untrusted: list[str]


class Launched(TypedDict):
    """A program that was launched; `event` is the number of the last event before it."""

    ok: bool
    pid: int
    window: Window | None
    event: int
    untrusted: NotRequired[list[str]]


class Details(TypedDict, total=False):
    """The actions of a node, and what it holds."""

    actions: list[str]
    text: str
    value: float
    minimum: float
    maximum: float


class Node(Details):
    """A node of a program's tree, with its children in a tree and its details where they are asked for."""

    id: str
    role: str
    name: str
    description: str
    states: list[str]
    rectangle: list[int] | None
    children: NotRequired[list["Node"]]


class Nodes(TypedDict):
    """The nodes that were found; `truncated` says why some may be missing, `silent` which programs did not answer."""

    nodes: list[Node]
    truncated: list[str]
    silent: list[str]
    untrusted: list[str]
    event: int


class Did(TypedDict, total=False):
    """The use of a node: the action that was invoked, or the value or text that it has now."""

    action: str
    value: float | None
    text: str
    untrusted: list[str]


class Used(Did):
    """The use of a node; `event` is the number of the last event before it."""

    ok: bool
    event: int


class Page(TypedDict):
    """A page of the browser, and where to speak with it."""

    id: str
    title: str
    url: str
    path: str


class Browser(TypedDict):
    """The browser that is driven by DevTools' protocol, with its pages where it runs."""

    running: bool
    path: str
    browser: NotRequired[str]
    pages: NotRequired[list[Page]]
    untrusted: NotRequired[list[str]]


class Ended(TypedDict):
    """Whether there was one to end."""

    ok: bool
    ended: bool


class Shown(TypedDict):
    """The part that a stream shows: the screen, a region or a window."""

    kind: str
    region: NotRequired[list[int]]
    window: NotRequired[int]


class Stream(Shown):
    """A stream of the screen, a region or a window; `link` shows it to people."""

    id: str
    path: str
    size: list[int]
    viewers: int
    link: NotRequired[str]


class Streams(TypedDict):
    """The streams, and how many there may be."""

    streams: list[Stream]
    most: int


class Recording(TypedDict):
    """A segment of the recording; times are seconds since 1970."""

    id: str
    begin: float
    end: float
    size: list[int]
    bytes: int
    frames: int
    actions: int
    seconds: float
    open: bool


class Recordings(TypedDict):
    """Whether the desktop is recorded, and the segments that are kept."""

    state: str
    reason: NotRequired[str]
    keep_seconds: NotRequired[int]
    size_bytes: NotRequired[int]
    bytes: int
    count: int
    recordings: list[Recording]
    event: NotRequired[int]
