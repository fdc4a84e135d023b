"""The screen's picture: frames by MIT-SHM, and a number that grows whenever something of them changes (XDamage)."""

import hashlib
import threading
from dataclasses import dataclass

import xcffib.damage
import xcffib.xfixes
from PIL import Image

from deskyard.computer.display.events import now_ms
from deskyard.computer.display.pictures import Wanted, encoded, size_of
from deskyard.computer.display.pixels import Pixels, look_at_pointer
from deskyard.computer.display.spaces import Rectangle, Shot, Shots
from deskyard.computer.display.x_server import Line, XConnection
from deskyard.computer.fields import wrong


@dataclass(frozen=True)
class Picture:
    """A picture that is handed out, or only the number of a state that is still the same (`data` is None)."""

    state: int
    format: str
    data: bytes | None = None
    shot: Shot | None = None


class Eyes:
    """Takes pictures; used by any thread, one at a time."""

    def __init__(self, display: str, shots: Shots) -> None:
        self.shots = shots
        self.state = now_ms()  # a picture of a service before this one is not taken for the same
        self.line = Line(display, self._prepare)
        self._lock = threading.RLock()
        self._pixels = Pixels()
        self._damage = self._parts = 0
        self._pointer: tuple[int, int, int] = (0, 0, 0)
        self._hash: tuple[int, str] = (-1, "")

    def _prepare(self, c: XConnection) -> None:
        c.extension(xcffib.xfixes).QueryVersion(5, 0).reply()
        c.extension(xcffib.damage).QueryVersion(1, 1).reply()
        self._damage, self._parts = c.x.generate_id(), c.x.generate_id()
        c.extension(xcffib.damage).Create(self._damage, c.root, xcffib.damage.ReportLevel.NonEmpty)
        c.extension(xcffib.xfixes).CreateRegion(self._parts, 0, [])
        self._pixels.close()
        self.state += 1

    def look(self, cursor: bool = False) -> int:
        """The number of the state that the screen is in, exact at the time of asking."""
        with self._lock:
            c = self.line.get()
            c.extension(xcffib.damage).Subtract(self._damage, 0, self._parts)
            changed = c.extension(xcffib.xfixes).FetchRegion(self._parts).reply()
            while c.heard() is not None:
                pass
            if len(changed.rectangles):
                self.state += 1
            if cursor:
                image = c.extension(xcffib.xfixes).GetCursorImage().reply()
                pointer = (image.x, image.y, image.cursor_serial)
                if pointer != self._pointer:
                    self._pointer = pointer
                    self.state += 1
            return self.state

    def picture(self, asked: Wanted, window: Rectangle | None = None) -> Picture:
        """The picture that is asked for, with an id that actions may name."""
        with self._lock:
            state = self.look(asked.cursor)
            if asked.if_changed == state:
                return Picture(state, asked.format)
            region, image = self._image(asked, window)
        size = size_of(region, asked)
        if size != image.size:
            image = image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
        return Picture(state, asked.format, encoded(image, asked.format), self.shots.add(region, *size))

    def require(self, region: Rectangle) -> None:
        """Raise `Problem` for a region that reaches outside the screen."""
        with self._lock:
            _require_within(region, *self.line.get().size())

    def _image(self, asked: Wanted, window: Rectangle | None) -> tuple[Rectangle, Image.Image]:
        c = self.line.get()
        width, height = c.size()
        region = asked.region or window or Rectangle(0, 0, width, height)
        seen = region.within(width, height)
        if asked.region:
            _require_within(region, width, height)
        if not seen.width or not seen.height:
            raise wrong("window", asked.window, "is not on the screen", "move or focus the window first")
        image = self._pixels.image(c, c.root, seen)
        if asked.cursor:
            self._paint_pointer(c, image, seen)
        return seen, image

    def frame_hash(self) -> str:
        """The SHA-256 of the whole frame, reckoned only when something has changed."""
        with self._lock:
            state = self.look()
            if self._hash[0] != state:
                c = self.line.get()
                width, height = c.size()
                pixels = self._pixels.raw(c, c.root, Rectangle(0, 0, width, height))
                self._hash = (state, hashlib.sha256(pixels).hexdigest())
            return self._hash[1]

    def _paint_pointer(self, c: XConnection, image: Image.Image, seen: Rectangle) -> None:
        pointer = look_at_pointer(c)
        if pointer is not None:
            pointer.paint(image, seen)

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._pixels.close()
            self.line.close()


def _require_within(region: Rectangle, width: int, height: int) -> None:
    if region.within(width, height) != region:
        reason = f"reaches outside the screen of {width} x {height}"
        raise wrong("region", region.as_list(), reason, "ask for a part of the screen")
