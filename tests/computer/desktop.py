"""A desktop to try the service on: a real X server with a window manager, a terminal, and a person at a VNC viewer."""

import contextlib
import faulthandler
import json
import os
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import xcffib.xproto as xproto

from deskyard.computer.accessibility.part import Accessibility
from deskyard.computer.application import Part, create
from deskyard.computer.display.part import Display, Settings
from deskyard.computer.display.x_server import XConnection
from deskyard.computer.launch.part import Launch
from deskyard.computer.recording.part import Recordings
from deskyard.computer.recording.recorder import Limits
from deskyard.computer.streaming.part import Streaming
from deskyard.computer.work.part import Work
from tests.support.answers_described import DOCUMENT, JSON, Described
from tests.support.listening import listening

WIDTH, HEIGHT = 1024, 768
PATIENCE = 60.0
# A test on a starved machine may say nothing on its connection for longer than a service waits by itself.
KEPT_SECONDS = 120
ALL = "see,act,files,shell"
PERSONS_KEY = 0xFFE1  # Shift: it writes nothing
ANSWERS = Described(DOCUMENT)


def as_described(answer: httpx.Response) -> None:
    """Fail for an answer of the service that its OpenAPI document does not describe."""
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    body = answer.read() if media_type == JSON else b""
    request = answer.request
    objection = ANSWERS.objection(request.method, request.url.path, answer.status_code, media_type, body)
    assert objection == "", f"{objection}: {body[:500]!r}"


@dataclass
class Notes:
    """The record of what was done, as a test reads it."""

    entries: list[dict[str, Any]] = field(default_factory=list)

    def note(self, entry: dict[str, Any]) -> None:
        """Keep it."""
        json.dumps(entry)
        self.entries.append(entry)


class XServer:
    """A TigerVNC server on a free display number; a person comes in by its RFB socket."""

    def __init__(self, folder: Path, display: int | None = None) -> None:
        self.rfb = folder / "rfb"
        self.rfb.unlink(missing_ok=True)
        reading, writing = os.pipe()
        number = [f":{display}"] if display is not None else []
        command = ["Xtigervnc", *number, "-displayfd", str(writing), "-rfbport", "-1", "-rfbunixpath", str(self.rfb)]
        command += ["-SecurityTypes", "None", "-geometry", f"{WIDTH}x{HEIGHT}", "-depth", "24", "-nolisten", "tcp"]
        with (folder / "x.log").open("ab") as log:
            self._process = subprocess.Popen(command, pass_fds=[writing], stdout=log, stderr=log)
        os.close(writing)
        with os.fdopen(reading) as said:
            assert select.select([said], [], [], PATIENCE)[0], "the X server did not start"
            self.number = int(said.readline())
        self.display = f":{self.number}"
        self._children: list[subprocess.Popen[bytes]] = []
        self.bus = f"unix:path={folder}/bus"
        self.environment = {
            **os.environ, "DISPLAY": self.display, "LC_ALL": "C.UTF-8", "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder), "DBUS_SESSION_BUS_ADDRESS": self.bus,
        }  # fmt: skip
        self.environment.pop("NO_AT_BRIDGE", None)

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """Run a program on the display."""
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(  # type: ignore[call-overload]
            command, env=self.environment, start_new_session=True, **quiet
        )
        self._children.append(child)
        return child  # type: ignore[no-any-return]

    def manage(self) -> None:
        """Start the session's bus and window manager, and return when it manages."""
        self._start_bus()
        c = XConnection(self.display)
        c.core.ChangeWindowAttributes(c.root, xproto.CW.EventMask, [xproto.EventMask.PropertyChange])
        self.window_manager = self.start("xfwm4", "--compositor=off")
        until = time.monotonic() + PATIENCE
        while not c.numbers(c.root, "_NET_SUPPORTING_WM_CHECK") or not c.numbers(c.root, "_NET_SUPPORTED"):
            assert time.monotonic() < until, "the window manager did not start"
            if c.poll() is None:
                select.select([c.x.get_file_descriptor()], [], [], 1)
        c.close()

    def _start_bus(self) -> None:
        command = ["dbus-daemon", "--session", "--nofork", "--print-address", f"--address={self.bus}"]
        bus = subprocess.Popen(command, env=self.environment, start_new_session=True, stdout=subprocess.PIPE)
        self._children.append(bus)
        assert bus.stdout is not None
        assert select.select([bus.stdout], [], [], PATIENCE)[0], "the session's bus did not start"
        bus.stdout.readline()

    def stop(self) -> None:
        """End the programs and the server."""
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, 9)
            child.wait()
            if child.stdout:
                child.stdout.close()
        self._process.terminate()
        self._process.wait(20)


class Person:
    """Somebody at a VNC viewer: their keys and buttons come by TigerVNC's own devices."""

    def __init__(self, server: XServer) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.settimeout(20)
        self._line.connect(str(server.rfb))
        self._take(12)
        self._line.sendall(b"RFB 003.008\n")
        assert self._take(2) == b"\x01\x01"
        self._line.sendall(b"\x01")
        assert self._take(4) == b"\0\0\0\0"
        self._line.sendall(b"\x01")
        self._take(struct.unpack(">20xI", self._take(24))[0])

    def key(self, keysym: int, down: bool) -> None:
        """Press or let go a key."""
        self._line.sendall(struct.pack(">BBxxI", 4, down, keysym))

    def tap(self, keysym: int = PERSONS_KEY) -> None:
        """Press a key and let it go."""
        self.key(keysym, True)
        self.key(keysym, False)

    def pointer(self, x: int, y: int, buttons: int = 0) -> None:
        """Put the pointer there, with these buttons down."""
        self._line.sendall(struct.pack(">BBHH", 5, buttons, x, y))

    def leave(self) -> None:
        """Close the viewer."""
        self._line.close()

    def _take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            taken += self._line.recv(size - len(taken))
        return taken


class Service:
    """The service itself, on a free port of loopback if not told where."""

    def __init__(
        self,
        display: str,
        settings: Settings | None = None,
        bus: str = "",
        also: Sequence[Part] = (),
        home: Path | None = None,
        on_display: Callable[[Display], Part] | None = None,
        recorded: Path | None = None,
        limits: Limits | None = None,
        place: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self.notes = Notes()
        streaming = Streaming(display)
        # Without a folder there is no file that asks for it, as on a desktop whose declaration does not.
        self.recorded = recorded or Path("/nonexistent")
        recordings = Recordings(streaming, self.recorded / "recordings", self.recorded / "recording.json", limits)
        self.part = Display(display, settings or Settings(quiet_seconds=0.5), recordings.noting(self.notes))
        for part in also:
            if isinstance(part, Work):
                part.tells(self.part.log)
        recordings.hears(self.part.log, self.part.privacy)
        self.accessibility = Accessibility(self.part, bus)
        parts: list[Part] = [self.part, self.accessibility, Launch(self.part, home), streaming, recordings, *also]
        if on_display:
            parts.append(on_display(self.part))
        config = uvicorn.Config(
            create(parts, self.part.privacy),
            port=0,
            log_level="warning",
            lifespan="on",
            timeout_keep_alive=KEPT_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._listening = listening(*place)
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]})
        self._thread.start()
        self.url = f"http://{place[0]}:{self.port}"
        hooks = {"response": [as_described]}
        self.client = httpx.Client(verify=False, base_url=self.url, timeout=PATIENCE, event_hooks=hooks)
        # The socket listens from the start: the first answer comes when the display is there.
        assert self.client.get("/healthz").text == "ok\n"

    def act(self, *actions: dict[str, Any], **more: Any) -> httpx.Response:
        """Ask for a batch."""
        return self.client.post("/v1/act", json={"actions": list(actions), **more})

    def did(self, *actions: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Ask for a batch that must be done."""
        answer = self.act(*actions, **more)
        assert answer.status_code == 200 and answer.json()["ok"], answer.text
        return dict(answer.json())

    def wait(self, event: str, **more: Any) -> dict[str, Any]:
        """Wait for an event that must come."""
        answer = self.client.post("/v1/wait", json={"event": event, **more})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def last(self) -> int:
        """The number of the last event."""
        return int(self.client.get("/v1/windows").json()["event"])

    def windows(self) -> list[dict[str, Any]]:
        """The windows there are."""
        return list(self.client.get("/v1/windows").json()["windows"])

    def stop(self) -> None:
        """End it."""
        self.client.close()
        self._server.should_exit = True
        self._thread.join(30)
        if self._thread.is_alive():
            # Where it stands is what its reader needs.
            faulthandler.dump_traceback(2, all_threads=True)
        assert not self._thread.is_alive(), "the service does not end"


class Recorder:
    """A window of the test's own that notes every key and button that comes to it."""

    def __init__(self, display: str, pings: bool = True, kind: Sequence[int] = ()) -> None:
        self.c = c = XConnection(display)
        self.id = c.x.generate_id()
        mask = xproto.EventMask
        events = mask.KeyPress | mask.KeyRelease | mask.ButtonPress | mask.ButtonRelease | mask.PointerMotion
        c.core.CreateWindow(
            0,
            self.id,
            c.root,
            100,
            100,
            400,
            300,
            0,
            1,
            0,
            xproto.CW.BackPixel | xproto.CW.EventMask,
            [0xFFFFFF, events],
        )
        self.title("recorder")
        if pings:
            c.core.ChangeProperty(0, self.id, c.atom("WM_PROTOCOLS"), xproto.Atom.ATOM, 32, 1, [c.atom("_NET_WM_PING")])
        if kind:
            c.core.ChangeProperty(
                0, self.id, c.atom("_NET_WM_WINDOW_TYPE"), xproto.Atom.ATOM, 32, len(kind), list(kind)
            )
        hints = [1, 1, *[0] * 7]  # it takes the keyboard's focus
        c.core.ChangeProperty(0, self.id, c.atom("WM_HINTS"), c.atom("WM_HINTS"), 32, 9, hints)
        c.core.MapWindow(self.id)
        c.x.flush()
        self.map = self._read_map()
        self.seen: list[Any] = []
        self._news = threading.Condition()
        self.text = ""
        self._shift = False

    def title(self, text: str) -> None:
        """Name the window."""
        data = text.encode()
        self.c.core.ChangeProperty(
            0, self.id, self.c.atom("_NET_WM_NAME"), self.c.atom("UTF8_STRING"), 8, len(data), data
        )
        self.c.x.flush()

    def _read_map(self) -> dict[int, list[int]]:
        setup = self.c.x.get_setup()
        first, count = setup.min_keycode, setup.max_keycode - setup.min_keycode + 1
        reply = self.c.core.GetKeyboardMapping(first, count).reply()
        width, syms = reply.keysyms_per_keycode, list(reply.keysyms)
        return {first + at: syms[at * width : (at + 1) * width] for at in range(count)}

    def hear(self) -> None:
        """Take what has come, as a program does: the map is read when it is said to have changed."""
        while (event := self.c.poll()) is not None:
            with self._news:
                self._take(event)
                self._news.notify_all()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when what came makes this true."""
        with self._news:
            assert self._news.wait_for(condition, PATIENCE), f"never came: {what}; text {self.text!r}"

    def _take(self, event: Any) -> None:
        if isinstance(event, xproto.MappingNotifyEvent):
            self.map = self._read_map()
        elif isinstance(event, xproto.ClientMessageEvent):
            self._pong(event)
        elif isinstance(
            event,
            xproto.KeyPressEvent
            | xproto.KeyReleaseEvent
            | xproto.ButtonPressEvent
            | xproto.ButtonReleaseEvent
            | xproto.MotionNotifyEvent,
        ):
            self.seen.append(event)
            if type(event) is xproto.KeyPressEvent:
                self._write(event)

    def _pong(self, event: Any) -> None:
        data = list(event.data.data32)
        if data[0] == self.c.atom("_NET_WM_PING"):
            self.c.send(self.c.root, "WM_PROTOCOLS", data)

    def _write(self, event: Any) -> None:
        # The second group of a layout is shown as a modifier to a client that does not speak XKB.
        group = 1 if event.state & xproto.ModMask._5 else 0
        keysym = self.map[event.detail][2 * group + (1 if event.state & 1 else 0)]
        if keysym == 0xFF0D:
            self.text += "\n"
        elif keysym & 0xFF000000 == 0x01000000:
            self.text += chr(keysym & 0xFFFFFF)
        elif 0x20 <= keysym <= 0xFF:
            self.text += chr(keysym)

    def buttons(self) -> list[tuple[int, int, int]]:
        """The buttons that were pressed: which, and where in the window."""
        return [(e.detail, e.event_x, e.event_y) for e in self.seen if type(e) is xproto.ButtonPressEvent]

    def moved_to(self, x: int, y: int) -> bool:
        """Whether the pointer came to this place of the screen, over the window."""
        return any((e.root_x, e.root_y) == (x, y) for e in self.seen if type(e) is xproto.MotionNotifyEvent)

    @contextlib.contextmanager
    def hearing(self) -> Iterator["Recorder"]:
        """Take events all the while, in a thread, as a program's main loop does."""
        ending, end = os.pipe()

        def loop() -> None:
            fd = self.c.x.get_file_descriptor()
            while True:
                self.hear()
                if ending in select.select([fd, ending], [], [], 0.5)[0]:
                    self.hear()
                    return

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield self
        finally:
            os.write(end, b"x")
            thread.join(20)

    def close(self) -> None:
        """End the window."""
        self.c.close()


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """A folder with a short name: a socket's path may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="dy-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def managed() -> Iterator[XServer]:
    """A display with a window manager; it ends with the block."""
    with temporary() as folder:
        server = XServer(folder)
        try:
            server.manage()
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def in_front(server: XServer, service: Service) -> Iterator[Recorder]:
    """A window that has the keyboard and notes what comes to it; it is gone afterwards, and the service knows."""
    before = service.last()
    window = Recorder(server.display)
    service.wait("window.appeared", match={"id": window.id}, after=before)
    # A window manager that has just begun manages what is there, and gives it no focus by itself.
    service.client.post(f"/v1/windows/{window.id}/focus")
    service.wait("window.focus", match={"id": window.id}, after=before)
    with window.hearing():
        yield window
        before = service.last()
    window.close()
    # The next one may have its number.
    service.wait("window.closed", match={"id": window.id}, after=before)
