"""Coordinate spaces: screen, window, picture, grid of 1000: each is mapped to a pixel of the screen, never clamped."""

import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from deskyard.computer.fields import Fields, real, wrong
from deskyard.computer.problem import Problem

MOST_SHOTS = 1000
GRID = 1000


@dataclass(frozen=True)
class Rectangle:
    """A part of the screen, in its pixels."""

    x: int
    y: int
    width: int
    height: int

    def meets(self, other: "Rectangle") -> bool:
        """Whether both have a pixel in common."""
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height

    def within(self, width: int, height: int) -> "Rectangle":
        """The part of it that is on a screen of this size; it may be empty."""
        left, top = max(self.x, 0), max(self.y, 0)
        right, bottom = min(self.x + self.width, width), min(self.y + self.height, height)
        return Rectangle(left, top, max(right - left, 0), max(bottom - top, 0))

    def as_list(self) -> list[int]:
        """As it stands in requests and answers."""
        return [self.x, self.y, self.width, self.height]


@dataclass(frozen=True)
class Shot:
    """A picture that was handed out: what of the screen it shows, and its own size."""

    id: str
    region: Rectangle
    width: int
    height: int


class Shots:
    """The last pictures that were handed out, so that an action may name one."""

    def __init__(self, most: int = MOST_SHOTS) -> None:
        self._most = most
        self._shots: OrderedDict[str, Shot] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, region: Rectangle, width: int, height: int) -> Shot:
        """Remember a picture under a new id."""
        shot = Shot(secrets.token_hex(6), region, width, height)
        with self._lock:
            self._shots[shot.id] = shot
            while len(self._shots) > self._most:
                self._shots.popitem(last=False)
        return shot

    def get(self, id: str, field: str) -> Shot:
        """The picture of this id; raises `Problem` for one that is unknown or forgotten."""
        with self._lock:
            shot = self._shots.get(id)
        if shot is None:
            reason = f"is no picture among the last {self._most}"
            raise Problem(HTTPStatus.GONE, field, f"shot:{id}", reason, "take a new picture and name its id")
        return shot


@dataclass(frozen=True)
class Point:
    """A place as a request names it; `path` says where in the request it stands."""

    x: float
    y: float
    space: str
    path: str


@dataclass(frozen=True)
class Spaces:
    """Maps points to pixels of the screen, by its size, its windows and the pictures that were handed out."""

    size: Callable[[], tuple[int, int]]
    window: Callable[[int, str], Rectangle]
    shots: Shots

    def pixel(self, point: Point) -> tuple[int, int]:
        """The pixel of the screen that a point names; raises `Problem` if it is outside its space or the screen."""
        kind, _, id = point.space.partition(":")
        screen = self.size()
        at = f"{point.path}." if point.path else ""
        if kind == "screen":
            return _inside(at, point, *screen, Rectangle(0, 0, *screen))
        if kind == "norm1000":
            return _inside(at, point, GRID, GRID, Rectangle(0, 0, *screen))
        if kind == "shot":
            shot = self.shots.get(id, f"{at}space")
            found = _inside(at, point, shot.width, shot.height, shot.region)
        else:
            region = self.window(int(id), f"{at}space")
            found = _inside(at, point, region.width, region.height, region)
        for name, value, most in (("x", found[0], screen[0]), ("y", found[1], screen[1])):
            if not 0 <= value < most:
                reason = f"lies at {value} of the screen, outside 0 to {most - 1}"
                raise wrong(
                    at + name, getattr(point, name), reason, "move the window onto the screen, or take a new picture"
                )
        return found


def _inside(at: str, point: Point, width: int, height: int, region: Rectangle) -> tuple[int, int]:
    for name, value, most in (("x", point.x, width), ("y", point.y, height)):
        if not 0 <= value < most:
            reason = f"is outside {point.space}: 0 to {most - 1}"
            raise wrong(
                at + name, value, reason, f"give a number from 0 to {most - 1}, or name the space it is meant in"
            )
    return (
        region.x + _scaled(point.x, width, region.width),
        region.y + _scaled(point.y, height, region.height),
    )


def _scaled(value: float, size: int, real_size: int) -> int:
    # The middle of a pixel of the picture, so that a scaled one is hit in its middle, too.
    if size == real_size:
        return math.floor(value)
    return min(math.floor((math.floor(value) + 0.5) * real_size / size), real_size - 1)


def space_of(value: object, path: str) -> str:
    """The name of a space; raises `Problem` for one that does not exist."""
    if isinstance(value, str):
        kind, colon, id = value.partition(":")
        if value in ("screen", "norm1000") or (kind == "shot" and id and len(id) <= 40):
            return value
        if kind == "window" and colon:
            return f"window:{window_id(id, path)}"
    raise wrong(path, value, "is no space", "give screen, window:<id>, shot:<id> or norm1000")


def window_id(value: object, path: str) -> int:
    """The number of a window, as a number or as text (decimal, or hexadecimal with 0x)."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 32:
        return value
    if isinstance(value, str) and len(value) <= 12 and value.isascii():
        try:
            number = int(value, 0)
        except ValueError:
            number = 0
        if 0 < number < 1 << 32:
            return number
    raise wrong(path, value, "is no window's number", "take an id of GET /v1/windows")


def point_of(fields: Fields, space: str | None = None) -> Point:
    """The point that the fields x, y and space of an object name."""
    x, y = real(fields.take("x"), fields.at("x")), real(fields.take("y"), fields.at("y"))
    if space is None:
        space = space_of(fields.take("space", "screen"), fields.at("space"))
    return Point(x, y, space, fields.path)


def region_of(value: object, path: str) -> Rectangle:
    """A rectangle [x, y, width, height] in pixels of the screen."""
    if isinstance(value, str):
        try:
            value = [int(part) for part in value.split(",")]
        except ValueError:
            value = None
    if (
        not isinstance(value, list)
        or len(value) != 4
        or not all(isinstance(part, int) and not isinstance(part, bool) and abs(part) < 1 << 16 for part in value)
    ):
        raise wrong(path, value, "is no rectangle", "give x,y,width,height in pixels of the screen")
    region = Rectangle(*value)
    if region.width < 1 or region.height < 1:
        raise wrong(path, value, "is empty", "give a width and height of at least 1")
    return region
