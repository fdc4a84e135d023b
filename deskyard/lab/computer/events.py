"""Measures how soon the service tells: of a window that appears, and of a person who takes over."""

import http
import http.client
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import xcffib
import xcffib.xproto
from websockets.sync.client import ClientConnection, connect

from deskyard.lab.computer import figures
from deskyard.lab.computer.calls import milliseconds
from deskyard.lab.computer.figures import Figure
from deskyard.lab.computer.screen import Screen
from deskyard.lab.computer.viewers import Reader, SocketLine

EVENTS, TAKES = 200, 5
HEAR_SECONDS = 30.0
SHIFT = 0xFFE1


def measure(on: Screen) -> list[Figure]:
    """Events of windows from the X request to the WebSocket, and input of a person to the first refusal."""
    return [
        figures.waits("event of a window", list(_windows(on)), most=20.0),
        figures.waits("a person takes over", list(_takes(on)), most=50.0),
    ]


def _windows(on: Screen) -> Iterator[float]:
    x = xcffib.connect(on.env["DISPLAY"])
    root = x.get_setup().roots[0]
    with _events(on) as line:
        for number in range(EVENTS):
            window, title = x.generate_id(), f"window {number}"
            x.core.CreateWindow(0, window, root.root, 40, 40, 80, 60, 0, 1, root.root_visual, 0, [])
            atoms = xcffib.xproto.Atom
            x.core.ChangeProperty(0, window, atoms.WM_NAME, atoms.STRING, 8, len(title), title)
            x.core.MapWindow(window)
            started = time.monotonic()
            x.flush()
            _until(line, "window.appeared", title=title)
            yield (time.monotonic() - started) * 1000
            x.core.DestroyWindow(window)
            x.flush()
            _until(line, "window.closed", title=title)
    x.disconnect()


def _takes(on: Screen) -> Iterator[float]:
    """From the key of a person to the first action that is refused for it; then they have left again."""

    def refused() -> bool:
        try:
            on.service.ask("/v1/act", {"actions": [{"type": "move", "x": 5, "y": 5}]})
        except http.client.HTTPException as error:
            return str(http.HTTPStatus.CONFLICT.value) in str(error)
        return False

    with _events(on) as line, socket.socket(socket.AF_UNIX) as person:
        person.connect(str(on.rfb))
        Reader(SocketLine(person)).greet()
        for _ in range(TAKES):

            def take() -> None:
                for down in (1, 0):
                    person.sendall(struct.pack(">BBxxI", 4, down, SHIFT))
                while not refused():
                    pass

            yield milliseconds(take)
            _until(line, "person.left")


@contextmanager
def _events(on: Screen) -> Iterator[ClientConnection]:
    with connect(f"ws://127.0.0.1:{on.service.port}/v1/events", max_size=None, compression=None) as line:
        yield line


def _until(line: ClientConnection, kind: str, **facts: Any) -> None:
    end = time.monotonic() + HEAR_SECONDS
    while True:
        event = json.loads(line.recv(timeout=max(0.0, end - time.monotonic())))
        if event["event"] == kind and facts.items() <= event.items():
            return
