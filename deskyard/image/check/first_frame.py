"""When a booting desktop first shows its wallpaper, asked of its VNC server as a viewer would."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.model.image import AnyImage
from deskyard.plan.image.image import ancestry, role_settings

FRAME_SECONDS = 300
# Runs in the guest, which has no library for it: a viewer, told the size of the screen at the end of the handshake.
VIEWER = r"""
import contextlib, socket, struct, sys
@contextlib.contextmanager
def viewer(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line = line.makefile("rwb", buffering=0)
        def read(count):
            data = b""
            while len(data) < count:
                data += line.read(count - len(data)) or sys.exit("closed")
            return data
        read(12)
        line.write(b"RFB 003.008\n")
        read(read(1)[0])
        line.write(b"\x01")
        read(4)
        line.write(b"\x01")
        size = struct.unpack(">HH16x", read(20))
        read(struct.unpack(">I", read(4))[0])
        yield line, read, size
"""
# The colour of one pixel.
PIXEL = (
    VIEWER
    + r"""
def pixel(port, x, y):
    with viewer(port) as (line, read, _):
        line.write(struct.pack(">B3xBBBBHHHBBB3x", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0))
        line.write(struct.pack(">BxHi", 2, 1, 0))
        line.write(struct.pack(">BBHHHH", 3, 0, x, y, 1, 1))
        read(16)
        blue, green, red, _ = read(4)
        return "#%02x%02x%02x" % (red, green, blue)
port, x, y = map(int, sys.argv[1:4])
"""
)
# Seconds since the kernel started; one that was there before it was asked for came earlier.
WAIT = r"""
import time
end = time.monotonic() + float(sys.argv[5])
while time.monotonic() < end:
    try:
        if pixel(port, x, y) == sys.argv[4]:
            print(open("/proc/uptime").read().split()[0])
            break
    except OSError:
        pass
    time.sleep(1)
"""


@dataclass(frozen=True)
class Wallpaper:
    """A pixel of the wallpaper, far from the panel and from the sign in the middle, and the server that shows it."""

    port: int
    x: int
    y: int
    colour: str


def wallpaper(image: AnyImage, tree: Path) -> Wallpaper | None:
    """The wallpaper of an image's desktop; nothing if it has none."""
    roles = {role for ancestor in ancestry(tree, image.name) for role in ancestor.roles}
    if not {"vnc_server", "desktop_session"} <= roles:
        return None
    return shown_by(*(role_settings(role, tree, image.name) for role in ("vnc_server", "desktop_session")))


def shown_by(server: Mapping[str, Any], session: Mapping[str, Any]) -> Wallpaper:
    """The wallpaper that the roles `vnc_server` and `desktop_session` show, from their settings."""
    return Wallpaper(
        port=int(server["vnc_server_port"]),
        x=40,
        y=int(session["desktop_session_height"]) - 40,
        colour=str(session["desktop_session_wallpaper_color"]),
    )


def wait_command(shown: Wallpaper) -> str:
    """The command line that answers, in the guest, how long after its kernel's start the wallpaper was there."""
    where = (str(shown.port), str(shown.x), str(shown.y), shown.colour, str(FRAME_SECONDS))
    return shlex.join(["python3", "-c", PIXEL + WAIT, *where])
