"""The scenes that streams show, on the X server: the screen, a part of it, or a window with its popups."""

from typing import Any, Protocol

import xcffib.composite
import xcffib.damage
import xcffib.xfixes
import xcffib.xproto as xproto
from PIL import Image

from deskyard.computer.display import windows
from deskyard.computer.display.pixels import Pixels
from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.display.x_server import REFUSED, XConnection
from deskyard.computer.fields import wrong
from deskyard.computer.streaming.frame import Frame

MOST_PARTS = 32  # more are taken as the rectangle around them
CLOSED = "the window is closed"
STRUCTURE = (
    xproto.ConfigureNotifyEvent, xproto.MapNotifyEvent, xproto.UnmapNotifyEvent, xproto.DestroyNotifyEvent,
)  # fmt: skip


class Gone(Exception):
    """There is nothing to look at any more; the text says why."""


class Scene(Protocol):
    """Something to look at; used by the studio's thread alone."""

    def begin(self, c: XConnection) -> None:
        """Start to hear what is drawn."""

    def hears(self, event: Any) -> bool:
        """Whether an event means that there is something new; raises `Gone` if it is the end."""

    def take(self, c: XConnection, pixels: Pixels, frame: Frame) -> int:
        """Bring the frame up to what is there, and return how many pixels were taken."""

    def end(self, c: XConnection) -> None:
        """Hear no more."""


class Damage:
    """The parts of a window that were drawn on, gathered until they are asked for."""

    def __init__(self, c: XConnection, drawable: int) -> None:
        self.id, self._parts = c.x.generate_id(), c.x.generate_id()
        c.extension(xcffib.damage).Create(self.id, drawable, xcffib.damage.ReportLevel.NonEmpty)
        c.extension(xcffib.xfixes).CreateRegion(self._parts, 0, [])

    def parts(self, c: XConnection) -> list[Rectangle]:
        """The parts drawn since this was asked last, in the window's pixels."""
        c.extension(xcffib.damage).Subtract(self.id, 0, self._parts)
        found = c.extension(xcffib.xfixes).FetchRegion(self._parts).reply()
        parts = found.rectangles if len(found.rectangles) <= MOST_PARTS else [found.extents]
        return [Rectangle(part.x, part.y, part.width, part.height) for part in parts]

    def end(self, c: XConnection) -> None:
        """Hear no more; of a window that is gone there is nothing left to end."""
        try:
            c.extension(xcffib.damage).DestroyChecked(self.id).check()
        except REFUSED:
            c.x.invalid()
        c.extension(xcffib.xfixes).DestroyRegion(self._parts)


def overlap(part: Rectangle, place: Rectangle) -> Rectangle:
    """The rectangle that two rectangles have in common; it may be empty."""
    inner = Rectangle(part.x - place.x, part.y - place.y, part.width, part.height).within(place.width, place.height)
    return Rectangle(inner.x + place.x, inner.y + place.y, inner.width, inner.height)


def moved(part: Rectangle, x: int, y: int) -> Rectangle:
    """A rectangle so far to the right and down."""
    return Rectangle(part.x + x, part.y + y, part.width, part.height)


class ScreenScene:
    """The whole screen, or a part of it."""

    def __init__(self, region: Rectangle | None) -> None:
        self._region = region
        self._damage: Damage | None = None
        self._root = 0
        self._all = True

    def begin(self, c: XConnection) -> None:
        """Start to hear what is drawn anywhere; raises `Problem` for a region outside the screen."""
        width, height = c.size()
        if self._region and self._region.within(width, height) != self._region:
            reason = f"reaches outside the screen of {width} x {height}"
            raise wrong("region", self._region.as_list(), reason, "ask for a part of the screen")
        self._root = c.root
        self._damage = Damage(c, c.root)
        self._all = True

    def hears(self, event: Any) -> bool:
        """Whether something was drawn, or the screen has another size."""
        if isinstance(event, xproto.ConfigureNotifyEvent) and event.window == self._root:
            self._all = True
            return True
        return isinstance(event, xcffib.damage.NotifyEvent) and bool(self._damage and event.damage == self._damage.id)

    def take(self, c: XConnection, pixels: Pixels, frame: Frame) -> int:
        """Take what was drawn; of a region that is outside the screen nothing is seen."""
        assert self._damage is not None
        parts = self._damage.parts(c)
        if self._all:
            screen = Rectangle(0, 0, *c.size())
            frame.move(self._region or screen)
            parts, self._all = [overlap(screen, frame.place)], False
        taken = 0
        for part in parts:
            seen = overlap(part, frame.place)
            if seen.width and seen.height:
                frame.paste(pixels.image(c, c.root, seen), moved(seen, -frame.place.x, -frame.place.y))
                taken += seen.width * seen.height
        return taken

    def end(self, c: XConnection) -> None:
        """Hear no more."""
        if self._damage:
            self._damage.end(c)


class Layer:
    """A window whose own pixels are kept by the server (Composite), also where others lie above it."""

    def __init__(self, c: XConnection, window: int, place: Rectangle) -> None:
        self.window = window
        self.place = place
        self.fresh = True
        self._pixmap = 0
        c.extension(xcffib.composite).RedirectWindow(window, xcffib.composite.Redirect.Automatic)
        self.damage = Damage(c, window)

    def look(self, c: XConnection, place: Rectangle) -> None:
        """Take it as it is now: the server makes new pixels for a new size, and for a window that comes back."""
        self.place = place
        self._forget(c)
        pixmap = c.x.generate_id()
        try:
            c.extension(xcffib.composite).NameWindowPixmapChecked(self.window, pixmap).check()
            self._pixmap = pixmap
        except REFUSED:
            c.x.invalid()  # it is not shown: there are no pixels
        self.fresh = True

    def drawn(self, c: XConnection) -> list[Rectangle]:
        """The parts drawn since this was asked last, in pixels of the screen."""
        parts = self.damage.parts(c)
        if self.fresh:
            self.fresh = False
            return [self.place]
        return [moved(part, self.place.x, self.place.y) for part in parts]

    def paint(self, c: XConnection, pixels: Pixels, image: Image.Image, part: Rectangle) -> int:
        """Paint what it has of that part into a picture of the part; how many pixels it was."""
        seen = overlap(part, self.place)
        if not self._pixmap or not seen.width or not seen.height:
            return 0
        border = c.core.GetGeometry(self.window).reply().border_width
        inner = moved(seen, border - self.place.x, border - self.place.y)
        image.paste(pixels.image(c, self._pixmap, inner), (seen.x - part.x, seen.y - part.y))
        return seen.width * seen.height

    @property
    def is_shown(self) -> bool:
        """Whether there are pixels."""
        return bool(self._pixmap)

    def _forget(self, c: XConnection) -> None:
        if self._pixmap:
            c.core.FreePixmap(self._pixmap)
            self._pixmap = 0

    def end(self, c: XConnection) -> None:
        """Let the window be as it was."""
        self._forget(c)
        self.damage.end(c)
        try:
            automatic = xcffib.composite.Redirect.Automatic
            c.extension(xcffib.composite).UnredirectWindowChecked(self.window, automatic).check()
        except REFUSED:
            c.x.invalid()


class WindowScene:
    """A window and the menus, lists and tips that it has open; the frame is large enough for all of them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._layers: dict[int, Layer] = {}  # the window itself first, then its popups from below
        self._stale = True

    def begin(self, c: XConnection) -> None:
        """Start to hear what is drawn in it, and what becomes of it; raises `Problem` (404) if it is not there."""
        place = windows.place(c, self._window, "window")
        mask = [xproto.EventMask.StructureNotify]
        c.core.ChangeWindowAttributes(self._window, xproto.CW.EventMask, mask)
        self._layers = {self._window: Layer(c, self._window, place)}
        self._stale = True

    def hears(self, event: Any) -> bool:
        """Whether it was drawn, moved, hidden or shown, or a popup came or went; raises `Gone` when it is closed."""
        if isinstance(event, xcffib.damage.NotifyEvent):
            return any(event.damage == layer.damage.id for layer in self._layers.values())
        if isinstance(event, xproto.DestroyNotifyEvent) and event.window == self._window:
            raise Gone(CLOSED)
        if not isinstance(event, STRUCTURE):
            return False
        appears = isinstance(event, xproto.MapNotifyEvent) and bool(event.override_redirect)
        news = appears or event.window in self._layers
        self._stale = self._stale or news
        return news

    def take(self, c: XConnection, pixels: Pixels, frame: Frame) -> int:
        """Take what was drawn in any of them, each above those below it; raises `Gone` when the window is closed."""
        if self._stale:
            self._look_again(c)
            self._stale = False
        main = self._layers[self._window]
        if not main.is_shown and frame.number:
            return 0  # minimised: the last picture stays
        shown = [layer.place for layer in self._layers.values()]
        around = _around(shown)
        whole = around != frame.place
        frame.move(around)
        drawn = [part for layer in self._layers.values() for part in layer.drawn(c)]
        taken = 0
        for part in [around] if whole else drawn:
            seen = overlap(part, around)
            if seen.width and seen.height:
                image = Image.new("RGB", (seen.width, seen.height))
                taken += sum(layer.paint(c, pixels, image, seen) for layer in self._layers.values())
                frame.paste(image, moved(seen, -around.x, -around.y))
        return taken

    def _look_again(self, c: XConnection) -> None:
        place = windows.geometry(c, self._window)
        if place is None:
            raise Gone(CLOSED)
        places = {self._window: place, **popups(c, self._window)}
        for window in [window for window in self._layers if window not in places]:
            self._layers.pop(window).end(c)
            self._layers[self._window].fresh = True  # what lay below is seen again
        before, self._layers = self._layers, {}
        for window, where in places.items():
            self._layers[window] = before.get(window) or Layer(c, window, where)
            self._layers[window].look(c, where)

    def end(self, c: XConnection) -> None:
        """Let the windows be as they were."""
        for layer in self._layers.values():
            layer.end(c)


def _around(places: list[Rectangle]) -> Rectangle:
    left, top = min(place.x for place in places), min(place.y for place in places)
    right, bottom = max(place.x + place.width for place in places), max(place.y + place.height for place in places)
    return Rectangle(left, top, right - left, bottom - top)


def popups(c: XConnection, window: int) -> dict[int, Rectangle]:
    """The windows that no window manager manages and that belong to this one, from below, and where they are.

    They say so themselves, directly or by another popup; of those that say nothing, it is the ones of the same program
    that touch the window.
    """
    found: dict[int, Rectangle] = {}
    place = windows.geometry(c, window)
    for child in c.core.QueryTree(c.root).reply().children:
        try:
            attributes = c.core.GetWindowAttributes(child).reply()
        except REFUSED:
            c.x.invalid()
            continue
        if not attributes.override_redirect or attributes.map_state != xproto.MapState.Viewable:
            continue
        where = windows.geometry(c, child)
        owner = next(iter(c.numbers(child, "WM_TRANSIENT_FOR")), 0)
        same = windows.is_of_same_client(c, child, window)
        if where is None or child == window or attributes._class == xproto.WindowClass.InputOnly:
            continue
        if owner in (window, *found) or (owner in (0, c.root) and same and place is not None and where.meets(place)):
            found[child] = where
    return found
