"""The clipboard: read from its owner, and owned by ourselves; all of it in the watcher's thread."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any

import xcffib.xfixes
import xcffib.xproto as xproto

from deskyard.computer.display.events import Log
from deskyard.computer.display.x_server import MOST_PROPERTY, REFUSED, XConnection
from deskyard.computer.problem import Problem

MOST_TEXT = 1 << 20  # bytes
ANSWER_SECONDS = 3.0
TEXTS = ("UTF8_STRING", "text/plain;charset=utf-8", "text/plain", "STRING", "TEXT")
TARGET_PROPERTY = "DESKYARD_CLIPBOARD"


class Clipboard:
    """The selection CLIPBOARD; its owner's text while another program has it, and ours while we have it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._c: XConnection | None = None
        self.window = 0
        self._text: bytes | None = None  # what we offer, while the selection is ours
        self._reads: list[tuple[Future[str], float]] = []
        self._parts: list[bytes] | None = None  # what has come so far of a text that comes in pieces
        self._served: Future[None] | None = None

    def begin(self, c: XConnection) -> None:
        """Make the window that takes part in selections, and hear of new owners."""
        self._c, self._text, self._parts = c, None, None
        self.window = c.x.generate_id()
        mask = xproto.EventMask.PropertyChange
        c.core.CreateWindow(0, self.window, c.root, -1, -1, 1, 1, 0, 2, 0, xproto.CW.EventMask, [mask])
        selection = xcffib.xfixes.SelectionEventMask.SetSelectionOwner
        c.extension(xcffib.xfixes).SelectSelectionInput(c.root, c.atom("CLIPBOARD"), selection)

    def forget(self, error: Exception) -> None:
        """The server is gone: nothing will be answered any more."""
        self._answer(lambda future: future.set_exception(error))
        self._c = None

    def put(self, c: XConnection, text: str) -> "Future[None]":
        """Own the selection with this text; the future is done when a program takes it after now."""
        self._text = text.encode()
        c.core.SetSelectionOwner(self.window, c.atom("CLIPBOARD"), 0)
        c.settle()
        self._served = Future()
        return self._served

    def read(self, c: XConnection) -> "Future[str]":
        """Ask the owner for its text; the future holds the answer."""
        future: Future[str] = Future()
        owner = c.core.GetSelectionOwner(c.atom("CLIPBOARD")).reply().owner
        if owner == self.window and self._text is not None:
            future.set_result(self._text.decode())
        elif not owner:
            future.set_result("")
        else:
            self._reads.append((future, time.monotonic() + ANSWER_SECONDS))
            if len(self._reads) == 1:
                self._ask(c)
        return future

    def _ask(self, c: XConnection) -> None:
        names = (c.atom("CLIPBOARD"), c.atom("UTF8_STRING"), c.atom(TARGET_PROPERTY))
        c.core.ConvertSelection(self.window, *names, 0)
        c.x.flush()

    def due(self) -> float:
        """In how many seconds a read has lasted too long."""
        return max(0.001, min([at for _, at in self._reads], default=time.monotonic() + 60) - time.monotonic())

    def tick(self) -> None:
        """Give up reads whose owner does not answer."""
        if any(at <= time.monotonic() for _, at in self._reads):
            self._parts = None
            reason = f"its owner did not answer within {ANSWER_SECONDS:g} s"
            problem = Problem(
                HTTPStatus.GATEWAY_TIMEOUT, "clipboard", None, reason, "copy again, or close that program"
            )
            self._answer(lambda future: future.set_exception(problem))

    def _answer(self, give: Callable[["Future[str]"], None]) -> None:
        reads, self._reads = self._reads, []
        for future, _ in reads:
            give(future)

    def hear(self, event: Any) -> None:
        """Take an event of the server that concerns selections."""
        c = self._c
        assert c is not None
        if isinstance(event, xproto.SelectionRequestEvent):
            self._serve(c, event)
        elif isinstance(event, xproto.SelectionClearEvent):
            self._text = None
        elif isinstance(event, xproto.SelectionNotifyEvent) and event.requestor == self.window:
            self._take(c, bool(event.property))
        elif isinstance(event, xproto.PropertyNotifyEvent) and self._parts is not None and event.state == 0:
            self._take_part(c)
        elif isinstance(event, xcffib.xfixes.SelectionNotifyEvent):
            self._log.tell("clipboard.changed", {"by": "agent" if event.owner == self.window else "program"})

    def _value(self, c: XConnection) -> tuple[bytes, str]:
        name = c.atom(TARGET_PROPERTY)
        reply = c.core.GetProperty(True, self.window, name, 0, 0, MOST_PROPERTY).reply()
        return bytes(reply.value.raw), c.name(reply.type) if reply.type else ""

    def _take(self, c: XConnection, given: bool) -> None:
        if not given:
            self._answer(lambda future: future.set_result(""))
            return
        value, kind = self._value(c)
        if kind == "INCR":
            self._parts = []
        else:
            self._finish(value)

    def _take_part(self, c: XConnection) -> None:
        value, _ = self._value(c)
        assert self._parts is not None
        if value and sum(map(len, self._parts)) < MOST_TEXT:
            self._parts.append(value)
        elif not value:
            self._finish(b"".join(self._parts))

    def _finish(self, value: bytes) -> None:
        self._parts = None
        text = value[:MOST_TEXT].decode("utf-8", "replace")
        self._answer(lambda future: future.set_result(text))

    def _serve(self, c: XConnection, event: Any) -> None:
        target = c.name(event.target)
        to = event.property or event.target
        given = self._text is not None and self._give(c, event.requestor, to, target)
        notify = xproto.SelectionNotifyEvent.synthetic(
            event.time, event.requestor, event.selection, event.target, to if given else 0
        )
        c.core.SendEvent(False, event.requestor, 0, notify.pack())
        c.x.flush()
        if given and target in TEXTS and self._served is not None and not self._served.done():
            self._served.set_result(None)

    def _give(self, c: XConnection, window: int, to: int, target: str) -> bool:
        text = self._text or b""
        if target == "TARGETS":
            atoms = [c.atom(name) for name in ("TARGETS", *TEXTS)]
            kind, format, count = xproto.Atom.ATOM, 32, len(atoms)
            data = b"".join(atom.to_bytes(4, "little") for atom in atoms)
        elif target in TEXTS:
            if target == "STRING":
                text = text.decode().encode("latin-1", "replace")
            kind, format, count, data = c.atom("UTF8_STRING" if target == "TEXT" else target), 8, len(text), text
        else:
            return False
        try:
            c.core.ChangePropertyChecked(xproto.PropMode.Replace, window, to, kind, format, count, data).check()
        except REFUSED:
            c.x.invalid()
            return False
        return True
