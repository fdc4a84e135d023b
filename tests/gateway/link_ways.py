"""The way from Mission Control's process `link` to a gateway of these tests, by a real sshd."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deskyard.control.link import way
from deskyard.control.link.asker import Asker
from deskyard.errors import SiteError
from tests.gateway.link_door import SECONDS, SSHD, Door
from tests.support.served import served


class Ways:
    """Who opens the way to the gateway `demo`, and to nobody else."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.facts = {"host_key": (door.folder / "host.pub").read_text(), "key": (door.folder / "key").read_text()}
        self.opened: list[subprocess.Popen[bytes]] = []
        self._ends: list[socket.socket] = []

    def __enter__(self) -> "Ways":
        return self

    def __exit__(self, *_: object) -> None:
        # Below the server that is ended there is another, which lasts as long as its connection does.
        for end in self._ends:
            with suppress(OSError), end:
                end.shutdown(socket.SHUT_RDWR)
        for process in self.opened:
            process.kill()
            process.wait(SECONDS)

    def open_way(self, name: str) -> tuple[dict[str, Any], socket.socket]:
        if name != "demo":
            raise SiteError("workspace", name, "is not up", f"run ./inv workspace.up {name}")
        near, far = socket.socketpair()
        inside = ["nsenter", f"--mount=/proc/{self._door.pid}/ns/mnt", "--"]
        argv = [*inside, SSHD, "-i", "-E", f"{self._door.folder}/log", "-f", f"{self._door.folder}/sshd_config"]
        with far:
            self.opened.append(subprocess.Popen(argv, stdin=far.fileno(), stdout=far.fileno()))
        self._ends.append(near.dup())
        return self.facts, near


@contextmanager
def asker_by(ways: Ways, folder: Path) -> Iterator[Asker]:
    """Who asks, with a socket to who opens the way, as the supervisor makes it."""

    class Handler(way.Handler):
        names = staticmethod(lambda: ["demo", "other"])
        asks = staticmethod(lambda name: name == "demo")
        open_way = staticmethod(ways.open_way)

    with served(folder / "way.sock", lambda listener: way.Server(listener, Handler)):
        yield Asker(folder / "way.sock")
