"""What E2B's desktop package calls is there, and what it starts is the desktop's own screen and session."""

from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

Settings = dict[str, Any]


@pytest.fixture(scope="session")
def defaults(defaults_of: Callable[[str], Settings]) -> Settings:
    return defaults_of("e2b_desktop")


@pytest.fixture(scope="module")
def as_agent(host: Host, defaults: Settings) -> Callable[[str], str]:
    """A command as E2B's package runs it: in a login shell of the account, with the screen that it asks for."""
    user, display = defaults["e2b_desktop_user"], defaults["e2b_desktop_usual_display"]

    def run(command: str) -> str:
        said: str = host.check_output("runuser -u %s -- bash -lc %s", user, f"export DISPLAY=:{display}; {command}")
        return said

    return run


@pytest.mark.parametrize("program", ["gtk-launch", "netstat", "pgrep", "scrot", "xdg-open", "xdotool", "xrandr"])
def test_program_that_it_calls_is_there(as_agent: Callable[[str], str], program: str) -> None:
    assert as_agent(f"command -v {program}").startswith("/usr/bin/")


@pytest.mark.parametrize("program", ["Xvfb", "startxfce4", "x11vnc", "xdpyinfo"])
def test_program_that_it_starts_is_the_shim(as_agent: Callable[[str], str], program: str) -> None:
    assert as_agent(f"command -v {program}") == f"/usr/local/bin/{program}"


def test_home_is_found_where_it_looks(as_agent: Callable[[str], str], defaults: Settings) -> None:
    home, user = defaults["e2b_desktop_home"], defaults["e2b_desktop_user"]
    assert as_agent(f"cd {home} && pwd -P") == f"/home/{user}"


def test_screen_has_the_number_and_takes_the_size_that_is_asked_for(
    as_agent: Callable[[str], str], defaults: Settings
) -> None:
    size = as_agent("xrandr | grep -o '[0-9]*x[0-9]*+0+0'").removesuffix("+0+0")
    other = "1000x700" if size != "1000x700" else "1024x768"
    for wanted in (other, size):
        begin = f"Xvfb :{defaults['e2b_desktop_usual_display']} -ac -screen 0 {wanted}x24 -retro -dpi 96 -nolisten tcp"
        # It stands for a server until it is ended.
        as_agent(f"timeout 20 {begin} -nolisten unix; [ $? = 124 ]")
        assert as_agent("xrandr | grep -o '[0-9]*x[0-9]*+0+0'") == f"{wanted}+0+0"


def test_session_that_it_waits_for_runs(as_agent: Callable[[str], str]) -> None:
    # A machine that was just booted may still be starting it.
    wait = "for _ in $(seq 300); do pgrep -x {0} >/dev/null && exit; sleep 1; done; exit 1"
    for program in ("xfce4-session", "xfwm4", "xfdesktop"):
        as_agent(f"bash -c '{wait.format(program)}'")


def test_stream_is_one_process_that_it_finds_and_ends(as_agent: Callable[[str], str]) -> None:
    as_agent("x11vnc -bg -display :0 -forever -shared -rfbport 5900 -nopw 2>/dev/null")
    assert as_agent("pgrep -cx x11vnc") == "1"
    as_agent("pkill x11vnc; timeout 30 tail --pid=$(pgrep -x x11vnc || echo 1000000) -f /dev/null")


def test_proxy_of_novnc_stands_at_the_desktops_own_port(as_agent: Callable[[str], str], defaults: Settings) -> None:
    folder = defaults["e2b_desktop_novnc"]
    as_agent(f"cd {folder}/utils && timeout 5 ./novnc_proxy --vnc localhost:5900 --listen 6080; [ $? = 124 ]")
    assert as_agent("netstat -tuln | grep ':6080 '")
