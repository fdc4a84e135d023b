"""The clipboard: read from its owner, and owned by ourselves; all of it in the watcher's thread."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import xcffib.xfixes
import xcffib.xproto as xproto

from deskyard.computer.display.events import Log
from deskyard.computer.display.windows import is_of_same_program
from deskyard.computer.display.x_server import REFUSED, XConnection
from deskyard.computer.problem import Problem

MOST_TEXT = 1 << 20  # bytes
MOST_PICTURE = 15 << 20  # bytes; what a request to the X server may hold
ANSWER_SECONDS = 3.0
TEXTS = ("UTF8_STRING", "text/plain;charset=utf-8", "text/plain", "STRING", "TEXT")
TEXT, PICTURE = "UTF8_STRING", "image/png"
MOST = {TEXT: MOST_TEXT, PICTURE: MOST_PICTURE}
TARGET_PROPERTY = "DESKYARD_CLIPBOARD"


@dataclass
class Read:
    """Somebody who asked for what is in the clipboard, as one of its targets."""

    target: str
    due: float
    future: "Future[bytes]"


class Clipboard:
    """The selection CLIPBOARD; what its owner gives while another program has it, and ours while we have it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._c: XConnection | None = None
        self.window = 0
        self._offer: Mapping[str, bytes] | None = None  # by targets, while the selection is ours
        self._reads: list[Read] = []
        self._asking = ""  # the target that the owner was asked for, one after the other
        self._parts: list[bytes] | None = None  # what has come so far of what comes in pieces
        self._served: Future[None] | None = None
        self._reader = 0  # a window whose program is waited for to take the text; 0: any

    def begin(self, c: XConnection) -> None:
        """Make the window that takes part in selections, and hear of new owners."""
        self._c, self._offer, self._parts, self._asking = c, None, None, ""
        self.window = c.x.generate_id()
        mask = xproto.EventMask.PropertyChange
        c.core.CreateWindow(0, self.window, c.root, -1, -1, 1, 1, 0, 2, 0, xproto.CW.EventMask, [mask])
        selection = xcffib.xfixes.SelectionEventMask.SetSelectionOwner
        c.extension(xcffib.xfixes).SelectSelectionInput(c.root, c.atom("CLIPBOARD"), selection)

    def forget(self, error: Exception) -> None:
        """The server is gone: nothing will be answered any more."""
        self._answer(self._reads, lambda future: future.set_exception(error))
        self._c = None

    def put(self, c: XConnection, text: str, reader: int = 0) -> "Future[None]":
        """Own the selection with this text; the future is done when a program takes it after now.

        It is that of the window `reader`, if one is given: others read all that is new in the clipboard.
        """
        data = text.encode()
        latin = text.encode("latin-1", "replace")
        return self._own(c, {target: latin if target == "STRING" else data for target in TEXTS}, reader)

    def put_picture(self, c: XConnection, png: bytes) -> "Future[None]":
        """Own the selection with this picture."""
        return self._own(c, {PICTURE: png})

    def _own(self, c: XConnection, offer: Mapping[str, bytes], reader: int = 0) -> "Future[None]":
        self._offer, self._reader = offer, reader
        c.core.SetSelectionOwner(self.window, c.atom("CLIPBOARD"), 0)
        c.settle()
        self._served = Future()
        return self._served

    def read(self, c: XConnection, target: str = TEXT) -> "Future[bytes]":
        """Ask the owner for its text or picture; the future holds the answer, empty if there is none."""
        future: Future[bytes] = Future()
        owner = c.core.GetSelectionOwner(c.atom("CLIPBOARD")).reply().owner
        if owner == self.window and self._offer is not None:
            future.set_result(self._offer.get(target, b""))
        elif not owner:
            future.set_result(b"")
        else:
            self._reads.append(Read(target, time.monotonic() + ANSWER_SECONDS, future))
            self._ask(c)
        return future

    def _ask(self, c: XConnection) -> None:
        if self._reads and not self._asking:
            self._asking = self._reads[0].target
            names = (c.atom("CLIPBOARD"), c.atom(self._asking), c.atom(TARGET_PROPERTY))
            c.core.ConvertSelection(self.window, *names, 0)
            c.x.flush()

    def due(self) -> float:
        """In how many seconds a read has lasted too long."""
        return max(0.001, min([read.due for read in self._reads], default=time.monotonic() + 60) - time.monotonic())

    def tick(self) -> None:
        """Give up reads whose owner does not answer."""
        late = [read for read in self._reads if read.due <= time.monotonic()]
        if late:
            reason = f"its owner did not answer within {ANSWER_SECONDS:g} s"
            problem = Problem(
                HTTPStatus.GATEWAY_TIMEOUT, "clipboard", None, reason, "copy again, or close that program"
            )
            self._answer(late, lambda future: future.set_exception(problem))

    def _answer(self, reads: list[Read], give: Callable[["Future[bytes]"], None]) -> None:
        self._reads = [read for read in self._reads if read not in reads]
        if not any(read.target == self._asking for read in self._reads):
            self._asking, self._parts = "", None
        for read in reads:
            if read.future.set_running_or_notify_cancel():  # else whoever asked waits no more
                give(read.future)
        if self._c is not None:
            self._ask(self._c)

    def hear(self, event: Any) -> None:
        """Take an event of the server that concerns selections."""
        c = self._c
        assert c is not None
        if isinstance(event, xproto.SelectionRequestEvent):
            self._serve(c, event)
        elif isinstance(event, xproto.SelectionClearEvent):
            self._offer = None
        elif isinstance(event, xproto.SelectionNotifyEvent) and event.requestor == self.window:
            # An owner may answer when its question was given up already.
            if self._asking and event.target == c.atom(self._asking):
                self._take(c, bool(event.property))
        elif isinstance(event, xproto.PropertyNotifyEvent) and self._parts is not None and event.state == 0:
            self._take_part(c)
        elif isinstance(event, xcffib.xfixes.SelectionNotifyEvent):
            self._log.tell("clipboard.changed", {"by": "agent" if event.owner == self.window else "program"})

    def _value(self, c: XConnection) -> tuple[bytes, str]:
        name = c.atom(TARGET_PROPERTY)
        reply = c.core.GetProperty(True, self.window, name, 0, 0, MOST_PICTURE // 4 + 1).reply()
        return bytes(reply.value.raw), c.name(reply.type) if reply.type else ""

    def _take(self, c: XConnection, given: bool) -> None:
        value, kind = self._value(c) if given else (b"", "")
        if kind == "INCR":
            self._parts = []
        else:
            self._finish(value)

    def _take_part(self, c: XConnection) -> None:
        value, _ = self._value(c)
        assert self._parts is not None
        if value and sum(map(len, self._parts)) <= MOST[self._asking]:
            self._parts.append(value)
        elif not value:
            self._finish(b"".join(self._parts))

    def _finish(self, value: bytes) -> None:
        asked = [read for read in self._reads if read.target == self._asking]
        self._answer(asked, lambda future: future.set_result(value))

    def _serve(self, c: XConnection, event: Any) -> None:
        target = c.name(event.target)
        to = event.property or event.target
        given = self._offer is not None and self._give(c, event.requestor, to, target)
        notify = xproto.SelectionNotifyEvent.synthetic(
            event.time, event.requestor, event.selection, event.target, to if given else 0
        )
        c.core.SendEvent(False, event.requestor, 0, notify.pack())
        c.x.flush()
        awaited = not self._reader or is_of_same_program(c, event.requestor, self._reader)
        if given and awaited and target != "TARGETS" and self._served is not None and not self._served.done():
            self._served.set_result(None)

    def _give(self, c: XConnection, window: int, to: int, target: str) -> bool:
        offer = self._offer or {}
        if target == "TARGETS":
            atoms = [c.atom(name) for name in ("TARGETS", *offer)]
            kind, format, count = xproto.Atom.ATOM, 32, len(atoms)
            data = b"".join(atom.to_bytes(4, "little") for atom in atoms)
        elif target in offer:
            data = offer[target]
            kind, format, count = c.atom(TEXT if target == "TEXT" else target), 8, len(data)
        else:
            return False
        try:
            c.core.ChangePropertyChecked(xproto.PropMode.Replace, window, to, kind, format, count, data).check()
        except REFUSED:
            c.x.invalid()
            return False
        return True
