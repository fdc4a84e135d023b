"""The session: a window manager, a panel, and our wallpaper in exactly its colour."""

from collections.abc import Callable
from typing import Any

from testinfra.host import Host

from deskyard.image.check.first_frame import PIXEL, shown_by

Eventually = Callable[[Callable[[], bool], str], None]


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
    shown = shown_by(defaults_of("vnc_server"), defaults)
    where, wanted = f"{shown.port} {shown.x} {shown.y}", defaults["desktop_session_wallpaper_color"]

    def pixel() -> str:
        # What people see, not what a file says.
        return str(host.run(f"python3 -c %s {where}", PIXEL + "print(pixel(port, x, y))").stdout.strip())

    eventually(lambda: pixel() == wanted, f"the pixel at {where} is {wanted}")


def test_login_of_its_user_finds_the_bus_of_the_session(
    host: Host, defaults: dict[str, Any], eventually: Eventually
) -> None:
    names = "dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames"

    def owners() -> str:
        # Without an address dbus-launch starts an empty bus, on which nobody has a name.
        return str(host.run(f"sudo -u {defaults['desktop_session_user']} -i {names}").stdout)

    eventually(lambda: "org.xfce.SessionManager" in owners(), "the session manager has its name on the bus")


def test_login_of_its_user_is_told_of_the_same_desktop_as_the_session(host: Host, defaults: dict[str, Any]) -> None:
    user, names = defaults["desktop_session_user"], ("DISPLAY", "DESKTOP_SESSION", "XDG_CURRENT_DESKTOP")

    def variables(text: str) -> dict[str, str]:
        return {name: value for line in text.splitlines() for name, _, value in [line.partition("=")] if name in names}

    session = host.check_output(f"cat /proc/$(pgrep -o -u {user} -x xfce4-session)/environ | tr '\\0' '\\n'")
    assert variables(session).keys() == set(names)
    assert variables(host.check_output(f"sudo -u {user} -i env")) == variables(session)


def test_bus_of_the_session_refuses_others(host: Host, defaults: dict[str, Any]) -> None:
    asked = host.run("sudo -u nobody dbus-send --bus=unix:path=/run/desktop-session/bus --print-reply / any.Thing")
    assert asked.rc != 0
    assert "Permission denied" in asked.stderr


def test_nothing_blanks_the_screen(host: Host, defaults: dict[str, Any]) -> None:
    assert "timeout:  0" in _on_screen(host, defaults, "xset q").stdout


def test_fonts_are_cached_for_every_user(host: Host) -> None:
    # Nobody may write: what is missing would be told, not mended.
    lines = host.run("sudo -u nobody fc-cache --system-only --verbose").stdout.splitlines()
    found = {line.partition(": ")[2].partition(":")[0] for line in lines if line.startswith("/usr/share/fonts")}
    # A folder within another is come upon twice.
    assert found - {"skipping, looped directory detected"} == {"skipping, existing cache is valid"}
