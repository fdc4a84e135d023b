"""Measures streams beside x11vnc, as E2B's package starts it: pictures of 1, 4 and 16 viewers, and their cost."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.client import connect

from deskyard.errors import HostError
from deskyard.host.deadline import Deadline
from deskyard.lab.computer import figures
from deskyard.lab.computer.figures import Figure
from deskyard.lab.computer.screen import START_SECONDS, Screen, free_port, running
from deskyard.lab.computer.viewers import Looked, SocketLine, WebSocketLine, looked

COUNTS = (1, 4, 16)
LOOK_SECONDS = 8.0
# Text that scrolls as fast as the terminal draws it.
SCROLLS = ["xterm", "-geometry", "100x40", "-e", "sh", "-c", "while :; do seq 100000 100200; done"]


def measure(on: Screen) -> list[Figure]:
    """Streams of the screen, while a terminal scrolls; all viewers see the same."""
    found: list[Figure] = []
    with running(SCROLLS, on.env), _x11vnc(on) as (pid, port):

        def open_line() -> SocketLine:
            return SocketLine(socket.create_connection(("127.0.0.1", port), START_SECONDS))

        for count in COUNTS:
            ours, theirs = _of_service(on, count), looked(open_line, count, LOOK_SECONDS, _spent(pid))
            found += _compared(f"{count} stream{'s' if count > 1 else ''}", ours, theirs)
    return found


def _compared(what: str, ours: Looked, theirs: Looked) -> list[Figure]:
    """Pictures of either way, and what one of them costs."""
    processor = (1e3 * way.processor / way.updates for way in (ours, theirs))
    size = (way.bytes / way.updates / 1e3 for way in (ours, theirs))
    return [
        figures.rate(f"{what}: pictures, of all together", "1/s", ours.updates, theirs.updates, wants_more=True),
        figures.rate(f"{what}: processor for a picture", "ms", *processor),
        figures.rate(f"{what}: size of a picture", "kB", *size),
    ]


def _of_service(on: Screen, count: int) -> Looked:
    """A stream for each viewer; they are gone afterwards."""
    made: list[str] = []

    def open_line() -> WebSocketLine:
        made.append(on.service.ask("/v1/streams", {})["path"])
        url = f"ws://127.0.0.1:{on.service.port}{made[-1]}"
        return WebSocketLine(connect(url, max_size=None, compression=None))

    try:
        return looked(open_line, count, LOOK_SECONDS, _spent(on.service.pid))
    finally:
        for path in made:
            on.service.ask(path, method="DELETE")


@contextmanager
def _x11vnc(on: Screen) -> Iterator[tuple[int, int]]:
    """The other way's server, by its process id and port."""
    port = free_port()
    argv = ["x11vnc", "-display", on.env["DISPLAY"], "-forever", "-wait", "50", "-shared", "-nopw", "-localhost"]
    with running([*argv, "-rfbport", str(port)], on.env) as pid:
        if not Deadline(START_SECONDS).wait_for(lambda: _answers(port), 0.1):
            reason = f"does not answer within {START_SECONDS:g} s"
            raise HostError("x11vnc", None, reason, "run it by hand on a screen to see why")
        yield pid, port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _spent(pid: int) -> Callable[[], float]:
    """A question for the processor seconds that a process has had."""

    def spent() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return spent
