"""Measures the computer-use service beside E2B's way, which starts xdotool and scrot for each call, on one screen."""

import http.client
import itertools
import json
import os
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import HostError
from deskyard.host.deadline import Deadline
from deskyard.host.places import tree

NEEDED = ("Xtigervnc", "xfwm4", "xterm", "xdotool", "scrot", "dbus-run-session")
SIZE = "1280x800"
ROUNDS, WINDOWS = 20, 5
START_SECONDS = 60.0
TEXT = "The quick brown fox jumps over the lazy dog. " * 3
# What E2B's desktop package gives xdotool: so many characters a call, and so many milliseconds a key.
CHUNK, DELAY_MS = 25, 75


@dataclass(frozen=True)
class Figure:
    """The medians of one kind of call, in milliseconds; `ratio` is how many times faster the service is."""

    name: str
    ours: float
    theirs: float
    ratio: float


def measure() -> list[Figure]:
    """Every figure, both ways on the same display; raises `HostError` if a program is missing."""
    for name in NEEDED:
        if shutil.which(name) is None:
            raise HostError(name, None, "is not installed", f"install the package that has {name}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deskyard-bench-")))
        display = stack.enter_context(_display())
        env = {**os.environ, "DISPLAY": display, "PYTHONPATH": str(tree()), "HOME": str(folder)}
        stack.enter_context(_running(["dbus-run-session", "--", "xfwm4", "--compositor=off"], env))
        service = stack.enter_context(_service(env))
        _typing_window(service)
        return [_figure(name, *ways) for name, ways in _calls(service, env, folder).items()]


Way = tuple[Callable[[], object], Callable[[], object], int]


def _calls(service: "_Service", env: dict[str, str], folder: Path) -> dict[str, Way]:
    def tool(*argv: str) -> Callable[[], object]:
        return lambda: subprocess.run(_in_shell(*argv), env=env, check=True, capture_output=True, timeout=120)

    def shot() -> bytes:
        path = folder / "shot.png"
        tool("scrot", "--pointer", "--overwrite", str(path))()
        return path.read_bytes()

    def typed() -> None:
        for start in range(0, len(TEXT), CHUNK):
            tool("xdotool", "type", "--delay", str(DELAY_MS), "--", TEXT[start : start + CHUNK])()

    def act(**action: Any) -> Callable[[], object]:
        return lambda: service.ask("/v1/act", {"actions": [action]})

    places = itertools.cycle(range(300, 340))

    def pointed(*then: str) -> Callable[[], object]:
        # With --sync it waits for a movement: to where the pointer is already, for ever.
        return lambda: tool("xdotool", "mousemove", "--sync", str(next(places)), "200", *then)()

    return {
        "click": (act(type="click", x=300, y=200), pointed("click", "1"), ROUNDS),
        "move": (act(type="move", x=310, y=210), pointed(), ROUNDS),
        "key": (act(type="key", keys="a"), tool("xdotool", "key", "a"), ROUNDS),
        f"{len(TEXT)} characters": (act(type="type", text=TEXT), typed, 2),
        "screenshot, JPEG": (lambda: service.ask("/v1/screen?format=jpeg"), shot, ROUNDS),
        "screenshot, PNG": (lambda: service.ask("/v1/screen?format=png"), shot, ROUNDS),
        "window known after its launch": (lambda: _launched(service), lambda: _searched(env), WINDOWS),
    }


def _in_shell(*argv: str) -> list[str]:
    """A command as E2B's service in a sandbox starts whatever its package asks for."""
    return ["/bin/bash", "-l", "-c", shlex.join(argv)]


def _figure(name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> Figure:
    first, second = _median(ours, rounds), _median(theirs, rounds)
    return Figure(name, round(first, 1), round(second, 1), round(second / first, 1))


def _median(call: Callable[[], object], rounds: int) -> float:
    call()
    return statistics.median(_milliseconds(call) for _ in range(rounds))


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return (time.monotonic() - started) * 1000


def _typing_window(service: "_Service") -> None:
    last = service.ask("/v1/drive")["event"]
    service.ask("/v1/processes", {"command": ["xterm", "-e", "sh", "-c", "stty -echo; cat >/dev/null"]})
    service.ask("/v1/wait", {"event": "window.appeared", "match": {"class": "xterm"}, "after": last})


def _launched(service: "_Service") -> None:
    last = service.ask("/v1/drive")["event"]
    process = service.ask("/v1/processes", {"command": ["xterm", "-T", "ours"]})
    service.ask("/v1/wait", {"event": "window.appeared", "match": {"title": "ours"}, "after": last})
    service.ask(f"/v1/processes/{process['id']}", method="DELETE")


def _searched(env: dict[str, str]) -> None:
    with _running(["xterm", "-T", "theirs"], env):
        argv = _in_shell("xdotool", "search", "--sync", "--onlyvisible", "--name", "theirs")
        subprocess.run(argv, env=env, check=True, capture_output=True, timeout=60)


class _Service:
    """The service, asked over a connection that is kept, as the SDK does."""

    def __init__(self, port: int) -> None:
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
        if answer.status >= 300:
            raise http.client.HTTPException(f"{path}: {answer.status} {content[:200]!r}")
        return json.loads(content) if "json" in answer.headers["content-type"] else content

    def _answer(self, verb: str, path: str, data: bytes | None) -> http.client.HTTPResponse:
        self._line.request(verb, path, data)
        return self._line.getresponse()


@contextmanager
def _display() -> Iterator[str]:
    """A screen of its own, by its name; the server chooses a number that is free."""
    reading, writing = os.pipe()
    argv = ["Xtigervnc", "-displayfd", str(writing), "-SecurityTypes", "None", "-localhost=1", "-rfbport", "-1"]
    argv += ["-geometry", SIZE, "-depth", "24"]
    with _running(argv, dict(os.environ), (writing,)), os.fdopen(reading) as numbers:
        os.close(writing)
        yield f":{numbers.readline().strip()}"


@contextmanager
def _service(env: dict[str, str]) -> Iterator[_Service]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with _running([sys.executable, "-m", "deskyard.computer", "--address", "127.0.0.1", "--port", str(port)], env):
        service = _Service(port)
        if not Deadline(START_SECONDS).wait_for(service.answers, 0.1):
            reason = f"does not answer within {START_SECONDS:g} s"
            raise HostError("computer-use service", None, reason, "run python -m deskyard.computer by hand to see why")
        yield service


@contextmanager
def _running(argv: list[str], env: dict[str, str], passed: tuple[int, ...] = ()) -> Iterator[None]:
    """A program that is ended on the way out."""
    process = subprocess.Popen(
        argv, env=env, pass_fds=passed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
