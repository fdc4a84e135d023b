"""The windows that the window manager has: what they are, and what can be done with them."""

import time
from http import HTTPStatus

import xcffib.res
import xcffib.xproto as xproto

from deskyard.computer.answers.screen import ListedWindow, Window
from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.display.x_server import REFUSED, XConnection
from deskyard.computer.fields import Fields, wrong
from deskyard.computer.problem import Problem

ACTIONS = ("focus", "move", "resize", "minimise", "maximise", "fullscreen", "restore", "raise", "lower", "close")
ICONIC = 3
ACTIVE, CLASS, RESTACK = "_NET_ACTIVE_WINDOW", "WM_CLASS", "_NET_RESTACK_WINDOW"
REMOVE, ADD = 0, 1
PAGER = 2  # we speak for the user, as a pager does: no window manager takes it for stealing the focus
FARTHEST = 1 << 15
NOWHERE, UNDER_THE_POINTER = 0, 1  # what the keyboard's focus may be in place of a window
MOST_INNER = 8
COMING_SECONDS = 0.5  # a window manager tells of a new window a moment before it shows it


def listed(c: XConnection) -> list[int]:
    """The managed windows, lowest first."""
    return c.numbers(c.root, "_NET_CLIENT_LIST_STACKING") or c.numbers(c.root, "_NET_CLIENT_LIST")


def focused(c: XConnection) -> int:
    """The window in front, or 0."""
    return (c.numbers(c.root, ACTIVE) or [0])[0]


def front(c: XConnection, before: tuple[int, str]) -> tuple[int, str]:
    """The window in front with its class; 0 and nothing if none is.

    Asked at once for both, as if it were the same window as `before`, which it mostly is.
    """
    active, kind = c.ask_property(c.root, ACTIVE), c.ask_property(before[0] or c.root, CLASS)
    window = (c.as_numbers(c.answer(active)) or [0])[0]
    found = c.answer(kind)
    if not window:
        return 0, ""
    return window, _names(c.as_text(found))[-1] if window == before[0] else names(c, window)[-1]


def reader(c: XConnection) -> int:
    """The window whose program gets what is typed now, or 0.

    It is asked of the server, not of the window manager: that names the window in front when it comes to it, and keys
    are on their way to the window before. A program may have the focus in a window inside of its own.
    """
    try:
        window = int(c.core.GetInputFocus().reply().focus)
        for _ in range(MOST_INNER):
            if window in (NOWHERE, UNDER_THE_POINTER, c.root):
                break
            if c.numbers(window, "WM_PROTOCOLS") or c.numbers(window, "_NET_WM_PID"):
                return window
            window = int(c.core.QueryTree(window).reply().parent)
    except REFUSED:
        c.x.invalid()
    return focused(c)


def is_of_same_client(c: XConnection, window: int, other: int) -> bool:
    """Whether two windows are of the same connection of a program to the server."""
    return window & ~c.resource_id_mask == other & ~c.resource_id_mask


def is_of_same_program(c: XConnection, window: int, other: int) -> bool:
    """Whether two windows are of the same process, which may have a connection of its own for the clipboard."""
    if is_of_same_client(c, window, other):
        return True
    resources, pid = c.extension(xcffib.res), xcffib.res.ClientIdMask.LocalClientPID
    specs = [xcffib.res.ClientIdSpec.synthetic(each, pid) for each in (window, other)]
    asked = [resources.QueryClientIds(1, [spec]) for spec in specs]
    try:
        first, second = ([list(id.value) for id in question.reply().ids] for question in asked)
    except REFUSED:
        c.x.invalid()
        return False
    return bool(first) and first == second


def title(c: XConnection, window: int) -> str:
    """The title in the window's frame."""
    return c.text(window, "_NET_WM_NAME") or c.text(window, "WM_NAME")


def names(c: XConnection, window: int) -> list[str]:
    """The window's instance name and class, as its program gives them; one name alone if it gives no more."""
    return _names(c.text(window, CLASS))


def _names(text: str) -> list[str]:
    return text.split("\0")[:2]


def geometry(c: XConnection, window: int) -> Rectangle | None:
    """Where the window's content is on the screen; None if there is no such window."""
    try:
        size = c.core.GetGeometry(window).reply()
        at = c.core.TranslateCoordinates(window, c.root, 0, 0).reply()
    except REFUSED:
        c.x.invalid()
        return None
    return Rectangle(at.dst_x, at.dst_y, size.width, size.height)


def place(c: XConnection, window: int, field: str) -> Rectangle:
    """Where a window is; raises `Problem` (404) if there is none."""
    found = geometry(c, window)
    if found is None or window == c.root:
        raise Problem(HTTPStatus.NOT_FOUND, field, window, "is no window any more", "take an id of GET /v1/windows")
    return found


def shown(c: XConnection, window: int, field: str) -> Rectangle:
    """Where a window is that the screen shows; raises `Problem` where there is none (404), or it is not shown (409)."""
    found = place(c, window, field)
    until = time.monotonic() + COMING_SECONDS
    while not _is_viewable(c, window):
        if "hidden" in states(c, window) or time.monotonic() > until:
            place(c, window, field)  # it may have gone meanwhile
            # What the screen shows in its place is another.
            reason = "is not shown: it is minimised, or on another work space"
            raise Problem(HTTPStatus.CONFLICT, field, window, reason, f"POST /v1/windows/{window}/restore")
        time.sleep(COMING_SECONDS / 50)
    return found


def _is_viewable(c: XConnection, window: int) -> bool:
    try:
        return bool(c.core.GetWindowAttributes(window).reply().map_state == xproto.MapState.Viewable)
    except REFUSED:
        c.x.invalid()
        return False


def states(c: XConnection, window: int) -> list[str]:
    """The states of a window, such as `fullscreen`; a minimised one is `hidden`."""
    return [name.removeprefix("_NET_WM_STATE_").lower() for name in c.names(c.numbers(window, "_NET_WM_STATE"))]


def described(c: XConnection, window: int) -> Window | None:
    """A window as it stands in answers; None if it is gone."""
    where = geometry(c, window)
    if where is None:
        return None
    called = names(c, window)
    kinds = c.names(c.numbers(window, "_NET_WM_WINDOW_TYPE"))
    return {
        "id": window,
        "pid": next(iter(c.numbers(window, "_NET_WM_PID")), None),
        "class": called[-1],
        "instance": called[0],
        "title": title(c, window),
        "geometry": where.as_list(),
        "frame": c.numbers(window, "_NET_FRAME_EXTENTS") or [0, 0, 0, 0],
        "state": states(c, window),
        "kind": kinds[0].removeprefix("_NET_WM_WINDOW_TYPE_").lower() if kinds else "normal",
        "transient_for": next(iter(c.numbers(window, "WM_TRANSIENT_FOR")), None),
    }


def all_windows(c: XConnection) -> list[ListedWindow]:
    """All windows, the topmost last, each with its place in the stack and whether it is in front."""
    active = focused(c)
    found = [entry for window in listed(c) if (entry := described(c, window)) is not None]
    return [{**entry, "stacking": index, "focused": entry["id"] == active} for index, entry in enumerate(found)]


def unmanaged(field: str, window: int) -> Problem:
    """The refusal of what the window manager does not have."""
    return Problem(HTTPStatus.NOT_FOUND, field, window, "is no managed window", "take an id of GET /v1/windows")


def act(c: XConnection, window: int, action: str, fields: Fields) -> None:
    """Do something with a window, by the window manager; raises `Problem` for one that is not managed."""
    if window not in listed(c):
        raise unmanaged("window", window)
    if action == "move":
        x, y = fields.integer("x", -FARTHEST, FARTHEST), fields.integer("y", -FARTHEST, FARTHEST)
        fields.done()
        _place(c, window, 1 << 8 | 1 << 9, x, y, 0, 0)
    elif action == "resize":
        width, height = fields.integer("width", 1, FARTHEST), fields.integer("height", 1, FARTHEST)
        fields.done()
        _place(c, window, 1 << 10 | 1 << 11, 0, 0, width, height)
    else:
        fields.done()
        _simple(c, window, action)
    c.settle()


def put(c: XConnection, window: int, content: Rectangle) -> None:
    """Put a window's content to this place, in this size."""
    _place(c, window, 0b1111 << 8, *content.as_list())


def _place(c: XConnection, window: int, which: int, x: int, y: int, width: int, height: int) -> None:
    # Static gravity: the place meant is that of the content, as it is listed.
    mask = (1 << 32) - 1
    c.send(window, "_NET_MOVERESIZE_WINDOW", [10 | which | PAGER << 12, x & mask, y & mask, width, height])


def _simple(c: XConnection, window: int, action: str) -> None:
    if action == "focus":
        c.send(window, ACTIVE, [PAGER, 0, 0])
    elif action == "minimise":
        c.send(window, "WM_CHANGE_STATE", [ICONIC])
    elif action == "close":
        c.send(window, "_NET_CLOSE_WINDOW", [0, PAGER])
    elif action in ("raise", "lower"):
        above = xproto.StackMode.Above if action == "raise" else xproto.StackMode.Below
        _restack(c, window, above)
    elif action == "restore":
        restore(c, window)
    elif action == "maximise":
        _state(c, window, ADD, "MAXIMIZED_VERT", "MAXIMIZED_HORZ")
    elif action == "fullscreen":
        _state(c, window, ADD, "FULLSCREEN")
    else:
        raise wrong("action", action, "is not known", f"use one of: {', '.join(ACTIONS)}")


def _restack(c: XConnection, window: int, above: int) -> None:
    if c.atom(RESTACK) in c.numbers(c.root, "_NET_SUPPORTED"):
        c.send(window, RESTACK, [PAGER, 0, above])
    else:
        # As the program itself would ask; xfwm4 gives what it raises the keyboard, too.
        c.core.ConfigureWindow(window, xproto.ConfigWindow.StackMode, [above])


def restore(c: XConnection, window: int) -> None:
    """Have a window be neither maximised, nor full screen, nor minimised, and in front."""
    _state(c, window, REMOVE, "MAXIMIZED_VERT", "MAXIMIZED_HORZ")
    _state(c, window, REMOVE, "FULLSCREEN")
    c.send(window, ACTIVE, [PAGER, 0, 0])


def _state(c: XConnection, window: int, change: int, *names: str) -> None:
    atoms = [c.atom(f"_NET_WM_STATE_{name}") for name in names]
    c.send(window, "_NET_WM_STATE", [change, *atoms, *([0] if len(atoms) == 1 else []), PAGER])
