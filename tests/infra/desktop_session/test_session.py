"""The session: a window manager, a panel, and our wallpaper in exactly its colour."""

from collections.abc import Callable
from typing import Any

from testinfra.host import Host

Eventually = Callable[[Callable[[], bool], str], None]

PIXEL = """
import struct, subprocess, sys
x, y = int(sys.argv[1]), int(sys.argv[2])
data = subprocess.run(["xwd", "-root", "-silent"], stdout=subprocess.PIPE, check=True).stdout
head = struct.unpack(">25I", data[:100])
size, bits, line, colors = head[0], head[11], head[12], head[19]
at = size + colors * 12 + y * line + x * bits // 8
blue, green, red = data[at], data[at + 1], data[at + 2]
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


def test_wallpaper_is_ours(host: Host, defaults: dict[str, Any], eventually: Eventually) -> None:
    """The pixel is read from the X server itself, far from the panel and the sign."""
    red, green, blue = bytes.fromhex(defaults["desktop_session_wallpaper_color"].removeprefix("#"))
    x, y = 40, defaults["desktop_session_height"] - 40

    wanted = (red, green, blue)
    eventually(
        lambda: _pixel(host, defaults, x, y) == wanted,
        f"pixel {x},{y} is {defaults['desktop_session_wallpaper_color']}",
    )


def test_nothing_blanks_the_screen(host: Host, defaults: dict[str, Any]) -> None:
    assert "timeout:  0" in _on_screen(host, defaults, "xset q").stdout


def _pixel(host: Host, defaults: dict[str, Any], x: int, y: int) -> tuple[int, ...]:
    user, display = defaults["desktop_session_user"], defaults["desktop_session_display"]
    answer = host.run(f"sudo -u {user} DISPLAY=:{display} python3 -c %s {x} {y}", PIXEL)
    return tuple(int(part) for part in answer.stdout.split())
