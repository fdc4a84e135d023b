"""A screen of its own with a window manager and the computer-use service, for as long as something is measured."""

import http
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import HostError
from deskyard.host.command import end_group
from deskyard.host.deadline import Deadline
from deskyard.host.places import tree

NEEDED = ("Xtigervnc", "xfwm4", "xterm", "xdotool", "scrot", "x11vnc", "dbus-run-session")
WIDTH, HEIGHT = 1280, 800
START_SECONDS = 60.0


class Service:
    """The service, asked over a connection that is kept, as the SDK does."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def answers(self) -> bool:
        """Whether it is there, and sees its display."""
        try:
            self.ask("/v1/windows")
        except (OSError, http.client.HTTPException):
            self._line.close()
            return False
        return True

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """The document of an answer, or its bytes; raises `HTTPException` for one that refuses."""
        data = json.dumps(body).encode() if body is not None else None
        verb = method or ("GET" if data is None else "POST")
        try:
            answer = self._answer(verb, path, data)
        except ConnectionError:
            # While the other side was measured the service ended the connection, which was idle.
            self._line.close()
            answer = self._answer(verb, path, data)
        content = answer.read()
        if answer.status == http.HTTPStatus.NOT_MODIFIED:
            return None
        if answer.status >= 300:
            raise http.client.HTTPException(f"{path}: {answer.status} {content[:200]!r}")
        return json.loads(content) if "json" in answer.headers["content-type"] else content

    def _answer(self, verb: str, path: str, data: bytes | None) -> http.client.HTTPResponse:
        self._line.request(verb, path, data)
        return self._line.getresponse()


@dataclass
class Screen:
    """A screen with its service; `env` is for programs that belong on it, `rfb` where its VNC server listens."""

    service: Service
    env: dict[str, str]
    folder: Path
    rfb: Path


@contextmanager
def screen() -> Iterator[Screen]:
    """A screen that nobody else sees; raises `HostError` if a program is missing."""
    for name in NEEDED:
        if shutil.which(name) is None:
            raise HostError(name, None, "is not installed", f"install the package that has {name}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deskyard-bench-")))
        rfb = folder / "rfb.sock"
        display = stack.enter_context(_display(rfb))
        env = {**os.environ, "DISPLAY": display, "PYTHONPATH": str(tree()), "HOME": str(folder)}
        stack.enter_context(running(["dbus-run-session", "--", "xfwm4", "--compositor=off"], env))
        yield Screen(stack.enter_context(_service(env)), env, folder, rfb)


@contextmanager
def running(argv: list[str], env: dict[str, str], passed: Sequence[int] = ()) -> Iterator[int]:
    """A program, by its process id, that is ended with all of its group on the way out."""
    process = subprocess.Popen(
        argv,
        env=env,
        pass_fds=passed,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process.pid
    finally:
        # A session's bus outlives the program that began it, and what it started outlives the bus.
        end_group(process)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def _display(rfb: Path) -> Iterator[str]:
    """A screen of its own, by its name; the server chooses a number that is free."""
    reading, writing = os.pipe()
    argv = ["Xtigervnc", "-displayfd", str(writing), "-SecurityTypes", "None", "-rfbunixpath", str(rfb)]
    argv += ["-rfbport", "-1", "-geometry", f"{WIDTH}x{HEIGHT}", "-depth", "24"]
    with running(argv, dict(os.environ), (writing,)), os.fdopen(reading) as numbers:
        os.close(writing)
        yield f":{numbers.readline().strip()}"


@contextmanager
def _service(env: dict[str, str]) -> Iterator[Service]:
    port = free_port()
    argv = [sys.executable, "-m", "deskyard.computer", "--address", "127.0.0.1", "--port", str(port)]
    with running(argv, env) as pid:
        service = Service(port, pid)
        if not Deadline(START_SECONDS).wait_for(service.answers, 0.1):
            reason = f"does not answer within {START_SECONDS:g} s"
            raise HostError("computer-use service", None, reason, "run python -m deskyard.computer by hand to see why")
        yield service
