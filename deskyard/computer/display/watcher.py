"""The thread that hears the X server: windows, focus, what is drawn, the clipboard, and whether a person acts."""

import os
import select
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import xcffib
import xcffib.damage
import xcffib.randr
import xcffib.xfixes
import xcffib.xinput as xinput
import xcffib.xproto as xproto

from deskyard.computer.display import windows
from deskyard.computer.display.acting.drive import Drive, Release, lift
from deskyard.computer.display.acting.presses import Presses
from deskyard.computer.display.clipboard import Clipboard
from deskyard.computer.display.events import Log
from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.display.x_server import REFUSED, ScreenGone, XConnection, gone
from deskyard.computer.problem import Problem

ALL_MASTERS = 1
RETRY_SECONDS = 0.5
# Between two looks at what was drawn, while nobody waits for it: a program that draws all the time is not looked at
# each time, which took the service a third of what it spends on a stream of it.
LOOK_SECONDS = 0.05
FOREVER = 3600.0
RAW = (
    xinput.XIEventMask.RawKeyPress | xinput.XIEventMask.RawKeyRelease
    | xinput.XIEventMask.RawButtonPress | xinput.XIEventMask.RawButtonRelease
)  # fmt: skip
# Letting go counts, too: where a modifier of the agent's is down, TigerVNC itself lets it go for a person's letter.
PERSONS = {
    xinput.RawKeyPressEvent: "key",
    xinput.RawKeyReleaseEvent: "key",
    xinput.RawButtonPressEvent: "button",
    xinput.RawButtonReleaseEvent: "button",
}
ASKED = 256  # how many calls may wait for the thread
# How a call ends that the X server does not answer.
UNANSWERED = (Problem, ScreenGone, TimeoutError, *REFUSED)
# A program may hold the X server for itself: whoever can do without its answer does, after so long.
ANSWER_SECONDS, SOON_SECONDS = 3.0, 0.5

Call = tuple[Callable[[XConnection], Any], "Future[Any]"]


class Watcher:
    """Hears the X server on a connection of its own, from `start` to `stop`."""

    def __init__(self, display: str, log: Log, drive: Drive) -> None:
        self._display = display
        self._log = log
        self._drive = drive
        self._presses = Presses(drive.hold_seconds)
        self._calls: deque[Call] = deque()
        self._lock = threading.Lock()  # of the calls
        self._wake_out, self._wake_in = os.pipe()
        self._stopping = threading.Event()
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self.clipboard = Clipboard(log)
        self._c: XConnection | None = None
        self._agents: set[int] = set()
        self._known: dict[int, tuple[str, Rectangle | None]] = {}
        self._front = self._damage = self._parts = 0
        self._is_drawn = False  # something was, and not looked at yet
        self._looked = 0.0
        self._size = (0, 0)

    def start(self) -> None:
        """Begin to hear."""
        self._thread.start()

    def stop(self) -> None:
        """Let go of what the agent holds, and end."""
        self._stopping.set()
        os.write(self._wake_in, b"x")
        self._thread.join(10)

    def call(self, function: Callable[[XConnection], Any]) -> "Future[Any]":
        """Have the thread do something on its connection; raises `Problem` where it is gone, or has too much to do."""
        future: Future[Any] = Future()
        if not self.ready.is_set():
            raise gone(self._display)
        with self._lock:
            if len(self._calls) >= ASKED:
                # A program may hold the server for itself; whoever asked may wait no more.
                self._calls = deque(call for call in self._calls if not call[1].cancelled())
            if len(self._calls) >= ASKED:
                raise gone(self._display)
            self._calls.append((function, future))
        os.write(self._wake_in, b"x")
        return future

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._c = XConnection(self._display)
                self._begin(self._c)
                self._hear(self._c)
            except (ScreenGone, xcffib.ConnectionException):
                self._drive.held = []  # it went with the server
                self._lost()
            except Exception:
                # Nothing that a program does to the screen may end this thread: all that is seen and told hangs on it.
                traceback.print_exc()
                self._lost()
            finally:
                if self._c is not None:
                    self._c.close()
                    self._c = None
            if not self._stopping.is_set():
                select.select([self._wake_out], [], [], RETRY_SECONDS)
        self._lost()

    def _lost(self) -> None:
        if self.ready.is_set():
            self.ready.clear()
            self._known = {}
            self._log.tell("screen.gone", {})
        while (call := self._next_call()) is not None:
            _, future = call
            if future.set_running_or_notify_cancel():
                future.set_exception(gone(self._display))
        self.clipboard.forget(gone(self._display))

    def _begin(self, c: XConnection) -> None:
        c.extension(xinput).XIQueryVersion(2, 2).reply()
        c.extension(xcffib.xfixes).QueryVersion(5, 0).reply()
        c.extension(xcffib.damage).QueryVersion(1, 1).reply()
        masks = [
            xinput.EventMask.synthetic(ALL_MASTERS, 1, [RAW]),
            xinput.EventMask.synthetic(0, 1, [xinput.XIEventMask.Hierarchy]),
        ]
        c.extension(xinput).XISelectEvents(c.root, len(masks), masks)
        self._learn_devices(c)
        mask = xproto.EventMask.PropertyChange | xproto.EventMask.StructureNotify
        c.core.ChangeWindowAttributes(c.root, xproto.CW.EventMask, [mask])
        self._damage, self._parts = c.x.generate_id(), c.x.generate_id()
        c.extension(xcffib.damage).Create(self._damage, c.root, xcffib.damage.ReportLevel.NonEmpty)
        c.extension(xcffib.xfixes).CreateRegion(self._parts, 0, [])
        c.extension(xcffib.damage).Subtract(self._damage, 0, 0)
        self.clipboard.begin(c)
        self._size = c.size()
        self._front = windows.focused(c)
        self._look_at_windows(c, tell=False)
        self.ready.set()
        self._log.tell("screen.ready", {"size": list(self._size)})

    def _learn_devices(self, c: XConnection) -> None:
        devices = c.extension(xinput).XIQueryDevice(0).reply().infos
        self._agents = {device.deviceid for device in devices if b"XTEST" in bytes(device.name.raw)}

    def _hear(self, c: XConnection) -> None:
        fd = c.x.get_file_descriptor()
        while not self._stopping.is_set():
            self._take_events(c)
            self._take_calls(c)
            self.clipboard.tick()
            tick = self._drive.tick(self.let_go, lambda: self._presses.go_on(c))
            waits = tick, self.clipboard.due(), self._look_when_due(c)
            if not self._stopping.is_set() and not self._pending(c):
                ready = select.select([fd, self._wake_out], [], [], min(waits))[0]
                if self._wake_out in ready:
                    os.read(self._wake_out, 4096)
        self._drive.release_all(c)
        c.settle()

    def _pending(self, c: XConnection) -> bool:
        # A round trip above may have read events together with its reply: select would not see them.
        event = c.heard()
        if event is None:
            return False
        self._take_events(c, event)
        return True

    def _take_events(self, c: XConnection, event: Any = None) -> None:
        look = moved = False
        event = event or c.heard()
        while event is not None:
            if type(event) in PERSONS:
                self._raw(c, event)
            elif isinstance(event, xcffib.damage.NotifyEvent):
                self._is_drawn = True
            elif isinstance(event, xproto.PropertyNotifyEvent) and event.window != self.clipboard.window:
                self._property(c, event)
                look = look or event.window == c.root
            elif isinstance(event, xproto.ConfigureNotifyEvent):
                moved = True
            elif isinstance(event, xinput.HierarchyEvent):
                self._learn_devices(c)
            else:
                self.clipboard.hear(event)
            event = c.heard()
        if look:
            self._look_at_windows(c)
        if moved:
            self._look_at_places(c)
        c.x.invalid()

    def _raw(self, c: XConnection, event: Any) -> None:
        if event.sourceid in self._agents:
            return
        self._presses.acts()
        # Who hears of it finds up what the agent held. Whoever takes over by a request does not wait for the server,
        # which a program may hold for itself: their word counts at once.
        self._drive.person_acts(self.let_go, PERSONS[type(event)], c.settle)

    def let_go(self, releases: list[Release]) -> None:
        """Let go of what the agent held, on this thread's connection."""
        if self._c is not None:
            lift(self._c, releases)

    def _next_call(self) -> "Call | None":
        with self._lock:
            return self._calls.popleft() if self._calls else None

    def _take_calls(self, c: XConnection) -> None:
        while (call := self._next_call()) is not None:
            function, future = call
            if not future.set_running_or_notify_cancel():
                continue  # whoever asked waits no more
            try:
                future.set_result(function(c))
            except Exception as error:
                future.set_exception(error)
                c.x.invalid()

    def _property(self, c: XConnection, event: Any) -> None:
        name = c.name(event.atom)
        if event.window in self._known and name in ("_NET_WM_NAME", "WM_NAME"):
            before, where = self._known[event.window]
            now = windows.title(c, event.window)
            if now != before:
                self._known[event.window] = (now, where)
                self._log.tell("window.title", {"id": event.window, "title": now})

    def _look_at_windows(self, c: XConnection, tell: bool = True) -> None:
        now = windows.listed(c)
        for window in [window for window in self._known if window not in now]:
            self._log.tell("window.closed", {"id": window, "title": self._known.pop(window)[0]})
        for window in [window for window in now if window not in self._known]:
            mask = xproto.EventMask.PropertyChange | xproto.EventMask.StructureNotify
            c.core.ChangeWindowAttributes(window, xproto.CW.EventMask, [mask])
            entry = windows.described(c, window)
            if entry is None:
                continue
            self._known[window] = (entry["title"], Rectangle(*entry["geometry"]))
            if tell:
                self._log.tell("window.appeared", entry)
                if entry["kind"] == "dialog" or entry["transient_for"]:
                    self._log.tell("dialog.appeared", entry)
        front = windows.focused(c)
        if front != self._front:
            self._front = front
            self._log.tell("window.focus", {"id": front, "title": windows.title(c, front) if front else ""})

    def _look_at_places(self, c: XConnection) -> None:
        size = c.size()
        if size != self._size:
            self._size = size
            self._log.tell("screen.resized", {"size": list(size)})
        for window, (title, before) in list(self._known.items()):
            now = windows.geometry(c, window)
            if now is not None and now != before:
                self._known[window] = (title, now)
                self._log.tell("window.moved", {"id": window, "geometry": now.as_list()})

    def _look_when_due(self, c: XConnection) -> float:
        """Look at what was drawn, if it is time; in how many seconds it will be."""
        if not self._is_drawn:
            return FOREVER
        left = self._looked + LOOK_SECONDS - time.monotonic()
        if left > 0 and not self._log.awaits_drawing:
            return left
        self.look_at_drawing(c)
        return FOREVER

    def look_at_drawing(self, c: XConnection) -> None:
        """Write down what was drawn so far; on this thread's connection."""
        self._is_drawn, self._looked = False, time.monotonic()
        c.extension(xcffib.damage).Subtract(self._damage, 0, self._parts)
        found = c.extension(xcffib.xfixes).FetchRegion(self._parts).reply().rectangles
        self._log.drew([Rectangle(part.x, part.y, part.width, part.height) for part in found])
