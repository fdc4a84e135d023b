"""Several windows side by side: each gets a part of the work area, which panels leave free."""

import itertools
import math
import select
import time
from dataclasses import dataclass
from http import HTTPStatus

import xcffib.xproto as xproto

from deskyard.computer.answers.screen import Placed
from deskyard.computer.display import windows
from deskyard.computer.display.spaces import Rectangle, window_id
from deskyard.computer.display.x_server import XConnection
from deskyard.computer.fields import Fields, wrong
from deskyard.computer.problem import Problem

COLUMNS, ROWS, GRID = ARRANGEMENTS = ("columns", "rows", "grid")
MOST_WINDOWS = 16
LEAST_SIDE = 50  # of a window's content: a smaller one shows nothing
# States in which a window manager keeps its own mind about a window's place.
FIXED = ("maximized_vert", "maximized_horz", "fullscreen", "hidden")
# How long a window manager may take to bring windows out of such a state.
PATIENCE_SECONDS = 2.0


@dataclass(frozen=True)
class Tiling:
    """The windows in their order, and how they are to be arranged."""

    windows: tuple[int, ...]
    arrangement: str


def read(fields: Fields) -> Tiling:
    """The tiling that a request asks for."""
    given = fields.list("windows", MOST_WINDOWS)
    found = tuple(window_id(id, f"{fields.at('windows')}[{index}]") for index, id in enumerate(given))
    for index, window in enumerate(found):
        if window in found[:index]:
            raise wrong(f"{fields.at('windows')}[{index}]", window, "is there twice", "name each window once")
    return Tiling(found, fields.choice("arrangement", ARRANGEMENTS, COLUMNS))


def work_area(c: XConnection) -> Rectangle:
    """The part of the screen that panels leave to windows, of the work space in front."""
    space = (c.numbers(c.root, "_NET_CURRENT_DESKTOP") or [0])[0]
    area = c.numbers(c.root, "_NET_WORKAREA")[4 * space : 4 * space + 4]
    return Rectangle(*area) if len(area) == 4 else Rectangle(0, 0, *c.size())


def parts(area: Rectangle, count: int, arrangement: str) -> list[Rectangle]:
    """The area divided among so many windows, without a gap; the last row of a grid shares its width."""
    rows = {COLUMNS: 1, ROWS: count, GRID: math.ceil(count / math.ceil(math.sqrt(count)))}[arrangement]
    columns = math.ceil(count / rows)
    found = []
    for row, (top, height) in enumerate(_divided(area.y, area.height, rows)):
        in_row = min(columns, count - row * columns)
        found += [Rectangle(left, top, width, height) for left, width in _divided(area.x, area.width, in_row)]
    return found


def _divided(start: int, length: int, count: int) -> list[tuple[int, int]]:
    """Where each of so many parts begins, and how long it is."""
    edges = [start + length * index // count for index in range(count + 1)]
    return [(edge, following - edge) for edge, following in itertools.pairwise(edges)]


def tile(display: str, tiling: Tiling) -> list[Placed]:
    """Arrange the windows, the first with the keyboard; returns the place that each was given.

    On a connection of its own: it waits for the window manager.
    """
    c = XConnection(display)
    try:
        return _tile(c, tiling)
    finally:
        c.close()


def _tile(c: XConnection, tiling: Tiling) -> list[Placed]:
    managed = windows.listed(c)
    for index, window in enumerate(tiling.windows):
        if window not in managed:
            raise windows.unmanaged(f"windows[{index}]", window)
    cells = parts(work_area(c), len(tiling.windows), tiling.arrangement)
    for window, cell in zip(tiling.windows, cells, strict=True):
        # As far as that is known: a window that fills the screen has no frame now, and gets one.
        _content(c, window, cell)
    for window in reversed(tiling.windows):
        c.core.ChangeWindowAttributes(window, xproto.CW.EventMask, [xproto.EventMask.PropertyChange])
        windows.restore(c, window)
    _until_free(c, tiling.windows)
    placed: list[Placed] = []
    for window, cell in zip(tiling.windows, cells, strict=True):
        content = _content(c, window, cell)
        windows.put(c, window, content)
        placed.append({"id": window, "geometry": content.as_list()})
    c.settle()
    return placed


def _content(c: XConnection, window: int, cell: Rectangle) -> Rectangle:
    """The place of a window's content whose frame fills the cell; raises `Problem` where nothing is left of it."""
    left, right, top, bottom = (c.numbers(window, "_NET_FRAME_EXTENTS") + [0] * 4)[:4]
    content = Rectangle(cell.x + left, cell.y + top, cell.width - left - right, cell.height - top - bottom)
    if min(content.width, content.height) < LEAST_SIDE:
        reason = f"would each have {content.width} x {content.height} pixels"
        raise wrong("windows", None, reason, "tile fewer windows, or arrange them as a grid")
    return content


def _until_free(c: XConnection, tiled: tuple[int, ...]) -> None:
    """Return when the window manager has let go of all windows; raises `Problem` where it does not."""
    until = time.monotonic() + PATIENCE_SECONDS
    while held := [window for window in tiled if set(windows.states(c, window)) & set(FIXED)]:
        left = until - time.monotonic()
        # What came together with the answers above is in no socket any more.
        if not _heard(c) and not (left > 0 and select.select([c.x.get_file_descriptor()], [], [], left)[0]):
            reason = "stays maximised, full screen or minimised"
            raise Problem(HTTPStatus.CONFLICT, "windows", held[0], reason, "look at the screen, and tile the others")


def _heard(c: XConnection) -> bool:
    """Take the events that have come; whether there were any."""
    heard = False
    while c.heard() is not None:
        heard = True
    return heard
