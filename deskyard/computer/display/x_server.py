"""Connections to the X server, one for each thread that asks it; they are opened again when the server comes back."""

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar

import xcffib
import xcffib.composite
import xcffib.damage
import xcffib.randr
import xcffib.shm
import xcffib.sync
import xcffib.xfixes
import xcffib.xinput
import xcffib.xproto as xproto
import xcffib.xtest

from deskyard.computer.problem import Problem

T = TypeVar("T")

MOST_ASKING = 64  # how many may wait for a server's answer, beyond whom it is said not to answer
MOST_PROPERTY = 1 << 18  # 32-bit units of a property that are read


class ScreenGone(Exception):
    """The X server does not answer on this connection."""


# What a request of xcffib raises: the connection broke, or the server refused (a window that is gone).
REFUSED = (xcffib.ProtocolException, xcffib.XcffibException)


class XConnection:
    """One connection to the X server, and the few questions that everybody asks."""

    def __init__(self, display: str) -> None:
        try:
            self.x: Any = xcffib.connect(display=display)
            self.x.invalid()
            # To parse it takes as long as to move the pointer.
            setup = self.x.get_setup()
            screen = setup.roots[self.x.pref_screen]
        except xcffib.XcffibException as error:
            raise ScreenGone(f"no X server at {display}: {error}") from error
        self.core: Any = self.x.core
        self.root: int = screen.root
        self.depth: int = screen.root_depth
        self.keycodes = range(setup.min_keycode, setup.max_keycode + 1)
        # Two resources are of the same client where they differ in these bits alone.
        self.resource_id_mask: int = setup.resource_id_mask
        self._extensions: dict[Any, Any] = {}
        self._atoms: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def extension(self, module: Any) -> Any:
        """An extension of the server by its xcffib module.

        The same object each time: to libxcb another object is another extension, which it asks the server for before
        its first request, and whose answer it keeps until the connection ends.
        """
        if module.key not in self._extensions:
            self._extensions[module.key] = self.x(module.key)
        return self._extensions[module.key]

    def poll(self) -> Any:
        """The next event that has come, or None; raises one of `REFUSED` for an error that came in its place.

        In place of xcffib's `poll_for_event` (1.5.0), which never frees what it gets from libxcb.
        """
        self.x.invalid()
        event = xcffib.lib.xcb_poll_for_event(self.x._conn)
        self.x.invalid()
        return None if event == xcffib.ffi.NULL else self.x.hoist_event(xcffib.ffi.gc(event, xcffib.lib.free))

    def heard(self) -> Any:
        """The next event that has come, or None; errors in between are passed over.

        They are of requests without an answer, mostly about a window that went away meanwhile.
        """
        while True:
            try:
                return self.poll()
            except xcffib.Error:
                continue

    def is_answered(self, asked: Any, until: float) -> bool:
        """Whether a question is answered by then; the answer is dropped, as are the events that come meanwhile."""
        self.x.flush()
        reply, error = xcffib.ffi.new("void **"), xcffib.ffi.new("xcb_generic_error_t **")
        while True:
            while self.heard() is not None:  # reads all that has come, the answer too
                pass
            if xcffib.lib.xcb_poll_for_reply(self.x._conn, asked.sequence, reply, error):
                xcffib.lib.free(reply[0])
                xcffib.lib.free(error[0])
                self.x.invalid()
                return True
            left = until - time.monotonic()
            if left < 0 or not select.select([self.x.get_file_descriptor()], [], [], left)[0]:
                return False

    def size(self) -> tuple[int, int]:
        """Width and height of the screen as it is now."""
        root = self.core.GetGeometry(self.root).reply()
        return root.width, root.height

    def pointer(self) -> tuple[int, int] | None:
        """Where the pointer is, whoever moved it; None where it is on another screen of the server."""
        reply = self.core.QueryPointer(self.root).reply()
        return (reply.root_x, reply.root_y) if reply.same_screen else None

    def settle(self) -> None:
        """Return when the server has done all that was asked on this connection."""
        self.core.GetInputFocus().reply()

    def atom(self, name: str) -> int:
        """The server's number of a name."""
        if name not in self._atoms:
            self._atoms[name] = self.core.InternAtom(False, len(name), name).reply().atom
        return self._atoms[name]

    def name(self, atom: int) -> str:
        """The name of a number of the server; nothing for one that is no name: any program may write such a number."""
        if atom not in self._names:
            try:
                self._names[atom] = bytes(self.core.GetAtomName(atom).reply().name.raw).decode("latin-1")
            except xcffib.Error:
                return ""
        return self._names[atom]

    def names(self, atoms: Iterable[int]) -> list[str]:
        """The names of those of these numbers that are names."""
        return [name for atom in atoms if (name := self.name(atom))]

    def ask_property(self, window: int, name: str) -> Any:
        """Ask for a property, so that more may be asked before the answer (`answer`) is waited for."""
        return self.core.GetProperty(False, window, self.atom(name), 0, 0, MOST_PROPERTY)

    def answer(self, asked: Any) -> Any:
        """A property's reply, or None where the window or the property is not there."""
        try:
            reply = asked.reply()
        except REFUSED:
            self.x.invalid()
            return None
        return reply if reply.format else None

    def property(self, window: int, name: str) -> Any:
        """A property's reply, or None where the window or the property is not there."""
        return self.answer(self.ask_property(window, name))

    def numbers(self, window: int, name: str) -> list[int]:
        """A property of 32-bit numbers, such as a list of windows."""
        return self.as_numbers(self.property(window, name))

    @staticmethod
    def as_numbers(reply: Any) -> list[int]:
        """The 32-bit numbers of a property's reply."""
        if reply is None or reply.format != 32:
            return []
        raw = bytes(reply.value.raw)
        return [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]

    def text(self, window: int, name: str) -> str:
        """A property of text, as far as it can be read."""
        return self.as_text(self.property(window, name))

    @staticmethod
    def as_text(reply: Any) -> str:
        """The text of a property's reply, as far as it can be read."""
        if reply is None or reply.format != 8:
            return ""
        coding = "latin-1" if reply.type == xproto.Atom.STRING else "utf-8"
        return bytes(reply.value.raw).decode(coding, "replace")

    def send(self, window: int, kind: str, data: list[int], target: int | None = None, mask: int | None = None) -> None:
        """Send a client message of five numbers to `target`, or to the root window for the window manager."""
        body = xproto.ClientMessageData.synthetic([*data, 0, 0, 0, 0, 0][:5], "IIIII")
        event = xproto.ClientMessageEvent.synthetic(32, window, self.atom(kind), body).pack()
        if mask is None:
            mask = xproto.EventMask.SubstructureRedirect | xproto.EventMask.SubstructureNotify
        self.core.SendEvent(False, self.root if target is None else target, mask, event)
        self.x.flush()

    def close(self) -> None:
        """End the connection; closing twice does nothing."""
        self.x.disconnect()


class Line:
    """A connection that is opened when it is first asked for, and again after the server went away.

    Used by one thread at a time; `prepare` makes on a new connection what its user needs.
    """

    def __init__(self, display: str, prepare: Callable[[XConnection], None] | None = None) -> None:
        self.display = display
        self._prepare = prepare
        self._open: XConnection | None = None
        self.lock = threading.RLock()

    def get(self) -> XConnection:
        """The open connection; raises `Problem` (503) while there is no X server."""
        with self.lock:
            if self._open is not None and not self._is_well(self._open):
                self.close()
            if self._open is None:
                self._open = self._opened()
            return self._open

    @staticmethod
    def _is_well(connection: XConnection) -> bool:
        """Whether a connection is not broken; what came on it unasked is dropped, such as that the map has changed."""
        try:
            while connection.heard() is not None:
                pass
        except xcffib.ConnectionException:
            return False
        return True

    def _opened(self) -> XConnection:
        opened = None
        try:
            opened = XConnection(self.display)
            if self._prepare:
                self._prepare(opened)
        except (ScreenGone, *REFUSED) as error:
            if opened is not None:
                opened.close()
            raise gone(self.display) from error
        return opened

    def close(self) -> None:
        """End the connection, if there is one."""
        with self.lock:
            if self._open is not None:
                self._open.close()
                self._open = None


class Askers:
    """A few threads that ask the X server, for whoever waits in the event loop, with a bound to how many wait.

    A program may hold the server for itself, for as long as it likes: who asks then has a thread of these, and none
    that the service needs for something else.
    """

    def __init__(self, display: str, name: str) -> None:
        self._display = display
        self._threads = ThreadPoolExecutor(2, name)
        self._room = threading.BoundedSemaphore(MOST_ASKING)

    async def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """Have a thread do something; raises `Problem` (503) where too many wait already."""
        if not self._room.acquire(blocking=False):
            raise gone(self._display)
        asked = self._threads.submit(function, *arguments)
        asked.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(asked)

    def close(self) -> None:
        """End the threads as soon as the server has answered them; nothing new is asked."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def gone(display: str) -> Problem:
    """The problem that is answered while the X server cannot be reached."""
    remedy = "ask again when the desktop's display has started; the service connects by itself"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "display", display, "the X server does not answer", remedy)
