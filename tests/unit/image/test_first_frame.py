"""The first frame is what a VNC server shows when it shows the wallpaper, not when it answers."""

import shlex
import socketserver
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from deskyard.host.places import tree
from deskyard.image.check import first_frame
from deskyard.image.check.first_frame import Wallpaper, wait_command, wallpaper
from deskyard.plan.image.image import read_image

BLACK, WANTED = (0, 0, 0), (0x1F, 0x4E, 0x5F)


class Screen(socketserver.ThreadingTCPServer):
    """A VNC server whose one pixel changes from viewer to viewer; the last colour stays."""

    daemon_threads = True

    def __init__(self, colours: list[tuple[int, int, int]]) -> None:
        super().__init__(("127.0.0.1", 0), Viewer)
        self.colours = colours
        self.viewers = 0

    def colour(self) -> tuple[int, int, int]:
        self.viewers += 1
        return self.colours[min(self.viewers, len(self.colours)) - 1]


class Viewer(socketserver.StreamRequestHandler):
    """Speaks RFB 3.8 without authentication as far as a viewer of one pixel needs it."""

    server: Screen

    def handle(self) -> None:
        self.wfile.write(b"RFB 003.008\n")
        self.rfile.read(12)
        self.wfile.write(b"\x01\x01")
        self.rfile.read(1)
        self.wfile.write(struct.pack(">I", 0))
        self.rfile.read(1)
        self.wfile.write(struct.pack(">HH16xI", 1, 1, 4) + b"desk")
        self.rfile.read(20 + 8)
        _, _, x, y, width, height = struct.unpack(">BBHHHH", self.rfile.read(10))
        red, green, blue = self.server.colour()
        self.wfile.write(struct.pack(">BxH", 0, 1) + struct.pack(">HHHHi", x, y, width, height, 0))
        self.wfile.write(bytes([blue, green, red, 0]))


@contextmanager
def screen(*colours: tuple[int, int, int]) -> Iterator[tuple[Screen, Wallpaper]]:
    with Screen(list(colours)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server, Wallpaper(server.server_address[1], 0, 0, "#1f4e5f")
        server.shutdown()


def boot_seconds(shown: Wallpaper) -> str:
    return subprocess.run(shlex.split(wait_command(shown)), capture_output=True, text=True, timeout=60).stdout


def test_frame_is_the_wallpaper_and_not_an_empty_screen() -> None:
    with screen(BLACK, WANTED) as (server, shown):
        assert float(boot_seconds(shown)) > 0
        assert server.viewers == 2


def test_wallpaper_that_never_comes_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_frame, "FRAME_SECONDS", 2)
    with screen(BLACK) as (server, shown):
        assert boot_seconds(shown) == ""
        assert server.viewers
    assert boot_seconds(replace(shown, port=1)) == ""


def test_images_with_a_desktop_have_a_wallpaper_and_others_none() -> None:
    desktop, agent = (wallpaper(read_image(tree(), name), tree()) for name in ("desktop", "agent"))
    assert desktop is not None
    assert desktop == agent
    assert wallpaper(read_image(tree(), "gateway"), tree()) is None
