"""The computer-use service with some of its parts, on a port of its own."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import uvicorn

from deskyard.computer.application import Part, create
from deskyard.computer.peers import Peers
from deskyard.host.deadline import Deadline
from tests.support.listening import listening


class Served(uvicorn.Server):
    """A server that says when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextlib.contextmanager
def served(parts: Sequence[Part], guarded: bool = True) -> Iterator[str]:
    """Serve these parts on loopback, as a rule to nobody who may not ask; the address."""
    listener = listening()
    app = create(parts)
    config = uvicorn.Config(Peers(app) if guarded else app, log_level="warning", timeout_graceful_shutdown=1)
    server = Served(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        assert server.ready.wait(20)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
    assert not thread.is_alive()


@contextlib.contextmanager
def home_of(folder: Path) -> Iterator[Path]:
    """A home for what is started, with a login shell that reads no files of the machine's user."""
    home = folder / "home"
    home.mkdir()
    with mock.patch.dict(os.environ, {"HOME": str(home)}):
        yield home


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether a process that is not our child comes to its end in time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    import select

    ready, _, _ = select.select([descriptor], [], [], Deadline(seconds).left)
    os.close(descriptor)
    return bool(ready)
