"""The session: a window manager, a panel, and our wallpaper in exactly its colour."""

from collections.abc import Callable
from typing import Any

from testinfra.host import Host

Eventually = Callable[[Callable[[], bool], str], None]

# Asks the VNC server for one pixel, as a viewer would: it is what people see, not what a file says.
PIXEL = r"""
import socket, struct, sys
port, x, y = map(int, sys.argv[1:])
s = socket.create_connection(("127.0.0.1", port), timeout=60)
s = s.makefile("rwb", buffering=0)
def read(count):
    data = b""
    while len(data) < count:
        data += s.read(count - len(data)) or sys.exit("closed")
    return data
read(12)
s.write(b"RFB 003.008\n")
read(read(1)[0])
s.write(b"\x01")
read(4)
s.write(b"\x01")
read(20)
read(struct.unpack(">I", read(4))[0])
s.write(struct.pack(">B3xBBBBHHHBBB3x", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0))
s.write(struct.pack(">BxHi", 2, 1, 0))
s.write(struct.pack(">BBHHHH", 3, 0, x, y, 1, 1))
read(16)
blue, green, red, _ = read(4)
print(red, green, blue)
"""


def _on_screen(host: Host, defaults: dict[str, Any], command: str) -> Any:
    user, display = defaults["desktop_session_user"], defaults["desktop_session_display"]
    return host.run(f"sudo -u {user} DISPLAY=:{display} {command}")


def test_session_shows_panel_and_desktop(host: Host, defaults: dict[str, Any], eventually: Eventually) -> None:
    def windows() -> str:
        return str(_on_screen(host, defaults, "wmctrl -l").stdout)

    eventually(lambda: "xfce4-panel" in windows() and "Desktop" in windows(), "panel and desktop are windows")


def test_window_manager_is_xfwm(host: Host, defaults: dict[str, Any]) -> None:
    assert "Name: Xfwm4" in _on_screen(host, defaults, "wmctrl -m").stdout


def test_wallpaper_is_ours(
    host: Host, defaults: dict[str, Any], defaults_of: Callable[[str], dict[str, Any]], eventually: Eventually
) -> None:
    """The pixel is far from the panel and from the sign in the middle."""
    wanted = tuple(bytes.fromhex(defaults["desktop_session_wallpaper_color"].removeprefix("#")))
    port = defaults_of("vnc_server")["vnc_server_port"]
    x, y = 40, defaults["desktop_session_height"] - 40

    def pixel() -> tuple[int, ...]:
        return tuple(int(part) for part in host.run(f"python3 -c %s {port} {x} {y}", PIXEL).stdout.split())

    eventually(lambda: pixel() == wanted, f"pixel {x},{y} is {wanted}")


def test_nothing_blanks_the_screen(host: Host, defaults: dict[str, Any]) -> None:
    assert "timeout:  0" in _on_screen(host, defaults, "xset q").stdout
