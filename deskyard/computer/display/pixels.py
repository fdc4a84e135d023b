"""Pixels out of the X server, by MIT-SHM where it shares memory with us, and the pointer, which is painted in by us."""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import xcffib.shm
import xcffib.xfixes
import xcffib.xproto as xproto
from PIL import Image

from deskyard.computer.display.shared_memory import Segment
from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.display.x_server import REFUSED, XConnection
from deskyard.computer.problem import Problem

ALL_PLANES = 0xFFFFFFFF

# Pillow gives the memory of each picture back to the kernel; to be given it anew takes as long as the rest of a
# picture. So many of the blocks (16 MiB at most) that pictures were in it keeps instead.
Image.core.set_blocks_max(2)  # type: ignore[attr-defined]


class Pixels:
    """Takes the pixels of a window or pixmap, on one connection by one thread; its memory is kept for the next time."""

    def __init__(self) -> None:
        self._segment: Segment | None = None
        self._shmseg = 0

    def image(self, c: XConnection, drawable: int, part: Rectangle) -> Image.Image:
        """A part of a window or pixmap as a picture."""
        data: Any = self.raw(c, drawable, part)
        return Image.frombuffer("RGB", (part.width, part.height), data, "raw", "BGRX", part.width * 4, 1)

    def raw(self, c: XConnection, drawable: int, part: Rectangle) -> memoryview:
        """The same as the server has it: blue, green, red, and a byte that says nothing.

        Only until the next picture is taken, or `close`: it is the memory that the server writes into.
        """
        if c.depth not in (24, 32):
            reason = f"has a depth of {c.depth}"
            raise Problem(HTTPStatus.NOT_IMPLEMENTED, "display", None, reason, "start the display with a depth of 24")
        size = part.width * part.height * 4
        box = (part.x, part.y, part.width, part.height)
        try:
            shared = self._shared(c, size)
            c.extension(xcffib.shm).GetImage(
                drawable, *box, ALL_PLANES, xproto.ImageFormat.ZPixmap, self._shmseg, 0
            ).reply()
            return memoryview(shared.memory)[:size]
        except (OSError, *REFUSED):
            c.x.invalid()
            # Without shared memory (another namespace) the pixels come over the socket.
            reply = c.core.GetImage(xproto.ImageFormat.ZPixmap, drawable, *box, ALL_PLANES).reply()
            return memoryview(bytes(reply.data.raw))

    def _shared(self, c: XConnection, size: int) -> Segment:
        if self._segment is None or self._segment.size < size:
            if self._segment:
                c.extension(xcffib.shm).Detach(self._shmseg)
            self.close()
            segment = Segment(size)
            self._shmseg = c.x.generate_id()
            try:
                c.extension(xcffib.shm).AttachChecked(self._shmseg, segment.id, False).check()
            except REFUSED:
                segment.close()
                raise
            finally:
                segment.forget()
            self._segment = segment
        return self._segment

    def close(self) -> None:
        """Give the memory back: also before another connection is used."""
        if self._segment:
            self._segment.close()
            self._segment = None


@dataclass(frozen=True)
class Pointer:
    """The pointer as it looks and where it is: the rectangle of its picture, in pixels of the screen."""

    place: Rectangle
    serial: int
    picture: Image.Image = field(compare=False)

    def paint(self, image: Image.Image, seen: Rectangle) -> None:
        """Paint it into a picture of this part of the screen."""
        image.paste(self.picture, (self.place.x - seen.x, self.place.y - seen.y), self.picture)


def look_at_pointer(c: XConnection) -> Pointer | None:
    """The pointer of now; None where a program hides it."""
    cursor: Any = c.extension(xcffib.xfixes).GetCursorImage().reply()
    width, height = cursor.width, cursor.height
    if not width or not height:
        return None
    # The pixels are premultiplied: what is below shows through by the rest of the alpha.
    raw = bytes(cursor.cursor_image.raw)
    picture = Image.frombuffer("RGBa", (width, height), raw, "raw", "BGRa", 0, 1).convert("RGBA")
    place = Rectangle(cursor.x - cursor.xhot, cursor.y - cursor.yhot, width, height)
    return Pointer(place, cursor.cursor_serial, picture)
