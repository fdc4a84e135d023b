"""E2B's own desktop clients, unchanged, on a screen with the shims of the role `e2b_desktop`."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from e2b import CommandExitException
from e2b_desktop import Sandbox
from jinja2 import Environment, StrictUndefined

from deskyard.computer.envd.part import Envd
from deskyard.computer.work.part import Work
from deskyard.host.places import tree
from deskyard.plan.image.image import role_settings
from tests.computer.desktop import Recorder, Service, XServer, in_front, temporary
from tests.support import npm
from tests.support.requirements import need_programs
from tests.unit.computer.serving import gone

ROLE = tree() / "ansible/roles/e2b_desktop"
SESSION = ("xfce4-session", "xfdesktop")
SOCKETS = Path("/tmp/.X11-unix")


class Desk:
    """A screen, its service with E2B's protocol, and an account whose PATH begins with the shims."""

    def __init__(self, home: Path, server: XServer) -> None:
        self.server = server
        self.shims = home / "bin"
        self.shims.mkdir()
        settings = {**role_settings("e2b_desktop", tree(), None), "e2b_desktop_display": server.number}
        made = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
        for template in (ROLE / "templates").glob("*.j2"):
            text = made.from_string(template.read_text()).render({**settings, "ansible_managed": "by a test"})
            self._write(template.stem, text)
        (home / ".bash_profile").write_text(f'export PATH="{self.shims}:$PATH" DISPLAY=:{self.number}\n')
        # The session's programs, which E2B's client looks for by their names; xfwm4 is real.
        for name in SESSION:
            server.start(str(self._write(name, "#!/bin/sh\nsleep infinity &\nwait\n")))
        work = Work(home)
        self.service = Service(server.display, bus=server.bus, also=[work, Envd(work)])

    @property
    def number(self) -> int:
        """The number that a program asks for, which is none of a server's; the next is free, too."""
        return 700 + 2 * self.server.number

    def _write(self, name: str, text: str) -> Path:
        path = self.shims / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def create(self, **options: object) -> Sandbox:
        """A desktop as E2B's package creates it."""
        return Sandbox.create(display=f":{self.number}", debug=True, sandbox_url=self.service.url, **options)

    def start(self, name: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start a shim."""
        return subprocess.Popen([str(self.shims / name), *arguments], stdout=subprocess.PIPE, text=True)

    def run(self, name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a shim as its client does."""
        argv = [str(self.shims / name), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    need_programs("Xtigervnc", "xfwm4", "xdotool", "scrot", "xrandr", "xdpyinfo", "netstat", "bash")
    with temporary() as home, mock.patch.dict(os.environ, {"HOME": str(home)}):
        server = XServer(home)
        try:
            server.manage()
            desk = Desk(home, server)
            try:
                yield desk
            finally:
                desk.service.stop()
        finally:
            server.stop()
            for link in SOCKETS.glob("X7*"):
                if link.is_symlink() and link.readlink() == Path(f"X{server.number}"):
                    link.unlink()


@pytest.fixture(scope="module")
def sandbox(desk: Desk) -> Sandbox:
    return desk.create(resolution=(1000, 700))


@pytest.fixture
def window(desk: Desk) -> Iterator[Recorder]:
    """A window in front that notes what comes to it."""
    with in_front(desk.server, desk.service) as window:
        yield window


def test_its_screen_is_the_desktops_with_the_size_that_it_asks_for(desk: Desk, sandbox: Sandbox) -> None:
    assert sandbox.get_screen_size() == (1000, 700)
    picture = desk.service.client.get("/v1/screen?format=png")
    assert picture.headers["content-type"] == "image/png" and int.from_bytes(picture.content[16:20], "big") == 1000
    shot = bytes(sandbox.screenshot())
    assert shot[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(shot[16:20], "big") == 1000
    assert desk.create().get_screen_size() == (1024, 768)
    assert desk.create(resolution=(1000, 700)).get_screen_size() == (1000, 700)


def test_screen_is_said_to_be_there_when_it_has_the_size_that_was_asked_for(desk: Desk, sandbox: Sandbox) -> None:
    before = sandbox.get_screen_size()
    begin = [str(desk.shims / "Xvfb"), f":{desk.number}", "-screen", "0"]
    for size in ("800x600", f"{before[0]}x{before[1]}"):
        # It has begun, and sets the size only after somebody asks whether the screen is there.
        argv = ["bash", "-c", 'read -r; exec "$@"', "-", *begin, f"{size}x24"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, text=True) as server:
            try:
                with desk.start("xdpyinfo", "-display", f":{desk.number}") as asking:
                    assert server.stdin is not None
                    print(file=server.stdin, flush=True)
                    said = asking.communicate(timeout=60)[0]
            finally:
                server.kill()
        assert (f" {size} pixels" in said, asking.returncode) == (True, 0), said


def test_screen_is_said_to_be_there_once_nobody_sets_its_size_any_more(desk: Desk, sandbox: Sandbox) -> None:
    before = sandbox.get_screen_size()
    argv = ["bash", "-c", "read -r; exit 1", "-", "Xvfb", f":{desk.number}", "-screen", "0", "800x600x24"]
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE) as server,
        desk.start("xdpyinfo", "-display", f":{desk.number}") as asking,
    ):
        server.communicate(b"\n")
        said = asking.communicate(timeout=60)[0]
    assert (f" {before[0]}x{before[1]} pixels" in said, asking.returncode) == (True, 0), said


def test_its_hands_reach_the_windows_of_that_screen(sandbox: Sandbox, window: Recorder) -> None:
    sandbox.move_mouse(300, 200)
    assert sandbox.get_cursor_position() == (300, 200)
    sandbox.left_click(320, 220)
    sandbox.right_click(330, 230)
    window.until(lambda: [button for button, _, _ in window.buttons()] == [1, 3], "two clicks")
    sandbox.write("Hello, desk", delay_in_ms=1)
    sandbox.press("enter")
    window.until(lambda: window.text.endswith("Hello, desk\n"), "the text")
    assert sandbox.get_window_title(sandbox.get_current_window_id()) == "recorder"


@pytest.mark.usefixtures("sandbox")
def test_the_javascript_client_does_the_same(desk: Desk, window: Recorder, e2b_packages: Path) -> None:
    options = {"debug": True, "sandboxUrl": desk.service.url, "display": f":{desk.number}", "resolution": [1000, 700]}
    npm.run(e2b_packages, "desktop.mjs", {"options": options})
    window.until(lambda: window.text.endswith("Hello, $HOME 'desk'A\n"), "the text")
    pressed = [button for button, _, _ in window.buttons()]
    # A left click, a double one, a middle one, a right one, three turns of the wheel and what is dragged.
    assert pressed == [1, 1, 1, 2, 3, 5, 5, 4, 1]


def test_its_stream_begins_once_and_ends(desk: Desk, sandbox: Sandbox) -> None:
    begin = f"x11vnc -bg -display :{desk.number} -forever -wait 50 -shared -rfbport 5900 -nopw"
    stored = sandbox.commands.run("x11vnc -storepasswd hunter2 ~/.vnc/passwd")
    assert (stored.exit_code, stored.stdout + stored.stderr) == (0, "")
    with pytest.raises(CommandExitException):
        sandbox.commands.run("pgrep -x x11vnc")
    said = sandbox.commands.run(begin)
    assert "the screen is shown by the desktop's viewer" in said.stderr
    pid = int(sandbox.commands.run("pgrep -x x11vnc").stdout)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGTERM)
    assert all(gone(number, 60) for number in (pid, *map(int, children))), "it goes on"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "which screen?"),
        ((":x", "-screen", "0", "800x600x24"), "which screen?"),
        ((":{free}",), "is no size"),
        ((":{free}", "-screen", "0", "800"), "is no size"),
        ((":{free}", "-screen", "0", "0x600x24"), "is no size"),
        ((":{taken}", "-screen", "0", "800x600x24"), "is another server's; choose another number"),
    ],
)
def test_screen_that_cannot_be_had_is_named_and_nothing_changes(
    desk: Desk, sandbox: Sandbox, arguments: tuple[str, ...], reason: str
) -> None:
    taken = SOCKETS / f"X{desk.number + 1}"
    taken.write_bytes(b"")
    try:
        numbers = {"free": desk.number, "taken": desk.number + 1}
        answer = desk.run("Xvfb", *(part.format(**numbers) for part in arguments))
    finally:
        taken.unlink()
    assert (answer.returncode, answer.stdout) == (1, "") and reason in answer.stderr, answer
    assert sandbox.get_screen_size() == (1000, 700)


def test_proxy_of_novnc_takes_ports_alone(desk: Desk) -> None:
    answer = desk.run("novnc_proxy", "--vnc", "localhost:5900", "--listen", "6080; id")
    assert (answer.returncode, answer.stdout) == (1, "") and "is no port" in answer.stderr


@pytest.mark.parametrize("name", ["Xvfb", "startxfce4", "x11vnc", "xdpyinfo", "novnc_proxy"])
def test_shims_are_sound_shell(desk: Desk, name: str) -> None:
    need_programs("shellcheck")
    checked = subprocess.run(["shellcheck", str(desk.shims / name)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert shutil.which(name, path=str(desk.shims)) and not re.search("{[{%]", (desk.shims / name).read_text())
