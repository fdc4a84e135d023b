"""`code` brings up an editor that ends at its first start, and says so when it never comes up."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

from deskyard.host.places import tree

# An editor that counts its starts, and ends at the first so many.
EDITOR = """#!{python}
import os, pathlib, sys
home = pathlib.Path.home()
starts = home / "starts"
starts.write_text((starts.read_text() if starts.exists() else "") + f"{{os.getpid()}}\\n")
if len(starts.read_text().split()) <= {failures}:
    sys.exit("error timed out")
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", {port}), Answer).serve_forever()
"""
FIRST_SETTINGS = '{"telemetry.telemetryLevel": "off"}'


class Launcher:
    """`code` of the role, with a played editor."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder = folder / "home", folder / "editor"
        self.home.mkdir()
        self.settings = self.home / ".local/share/code-server/User/settings.json"
        with socket.create_server(("127.0.0.1", 0)) as line:
            self.port = int(line.getsockname()[1])

    def code(self, failures: int, start_seconds: int = 60) -> subprocess.CompletedProcess[str]:
        """Run it with an editor that fails so often."""
        program = self.folder / "node_modules/.bin/code-server"
        program.parent.mkdir(parents=True)
        program.write_text(EDITOR.format(python=sys.executable, failures=failures, port=self.port))
        program.chmod(0o755)
        (self.folder / "settings.json").write_text(FIRST_SETTINGS)
        template = (tree() / "ansible/roles/editor/templates/code.py.j2").read_text()
        values = {"editor_port": self.port, "editor_idle_minutes": 1, "editor_folder": self.folder}
        text = jinja2.Template(template).render(ansible_managed="", editor_browser="/bin/true", **values)
        code = self.folder / "code"
        code.write_text(text.replace(", 300\n", f", {start_seconds}\n", 1))
        argv = [sys.executable, str(code), "--no-window", str(self.home)]
        env = {**os.environ, "HOME": str(self.home)}
        return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=120, check=False)

    def starts(self) -> list[int]:
        """The processes that it started."""
        return [int(number) for number in (self.home / "starts").read_text().split()]


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    for number in launcher.starts():
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.parametrize("failures", [0, 2])
def test_editor_that_ends_before_it_answers_is_started_again(launcher: Launcher, failures: int) -> None:
    done = launcher.code(failures)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_file()
    assert len(launcher.starts()) == failures + 1


def test_editor_that_never_comes_up_is_an_error_that_names_its_log(launcher: Launcher) -> None:
    done = launcher.code(failures=1000, start_seconds=5)
    assert done.returncode == 1
    assert "did not answer within 5 s" in done.stderr
    assert "code-window/log" in done.stderr
    assert "error timed out" in (launcher.home / ".local/state/code-window/log").read_text()


def test_user_begins_with_the_settings_of_the_role(launcher: Launcher) -> None:
    launcher.code(failures=0)
    assert launcher.settings.read_text() == FIRST_SETTINGS


def test_user_keeps_own_settings(launcher: Launcher) -> None:
    launcher.settings.parent.mkdir(parents=True)
    launcher.settings.write_text("{}")
    launcher.code(failures=0)
    assert launcher.settings.read_text() == "{}"
