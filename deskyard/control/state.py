"""How Mission Control of this machine is: whether it runs and answers, and each of its processes.

Apart from what brings it up, which imports the database's tools and the API: who only asks need not wait for those.
"""

import http.client
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from deskyard.control.e2b import declared
from deskyard.control.ground.folder import Folder
from deskyard.control.ground.settings import kept
from deskyard.control.process.noted import noted
from deskyard.control.process.unit import Unit, is_installed
from deskyard.host.background import Background
from deskyard.host.deadline import Alarm
from deskyard.host.places import places

DOWN_SECONDS = 90.0  # more than its supervisor takes at worst, which ends the processes first and the database last
SUPERVISOR = "supervisor"
ANSWER_SECONDS = 5.0
# So much of the end of a log is read, and of that shown.
READ_BYTES, SHOWN_LINES, SHOWN_LETTERS = 4096, 3, 600


def state(folder: Folder) -> dict[str, Any]:
    """Whether it runs, where it is reached, and each of its processes."""
    found = kept(folder)
    running, answered = runs(folder), declared.kept(folder.e2b_declared)
    processes = noted(folder) if running else {}
    fault = None
    if running and answered:
        # It begins again and again where it refuses to serve: that it runs at this moment says nothing.
        processes["e2b"] = door_answers(folder)
        fault = None if processes["e2b"] else door_fault(folder)
    return {
        "url": found[0].origin if found else None,
        "site": found[0].site if found else None,
        "running": running,
        "ready": running and ready(folder),
        "processes": processes,
        "database": found[0].database if found else None,
        "e2b_domain": answered.authority if answered else None,
        "e2b_fault": fault,
        "folder": str(folder.root),
        "certificate_authority": str(places().authority(found[0].site)) if found else None,
    }


def supervisor(folder: Folder) -> Background | Unit:
    """The program that keeps its processes up, as the host starts and ends it."""
    if is_installed(folder.root):
        return Unit(DOWN_SECONDS)
    return Background(SUPERVISOR, folder.root, end_seconds=DOWN_SECONDS)


def runs(folder: Folder) -> bool:
    """Whether its supervisor runs."""
    return supervisor(folder).pid() is not None


def ready(folder: Folder) -> bool:
    """Whether the web process answers on its socket that all is well: nothing of it depends on the door of E2B's."""
    return _answers(folder.web_socket, "/readyz")


def door_answers(folder: Folder) -> bool:
    """Whether the process for E2B's clients answers on its socket."""
    return _answers(folder.e2b_socket, "/health")


def door_fault(folder: Folder) -> str:
    """Why the process for E2B's clients does not answer: the end of its log."""
    path = folder.logs / "e2b.log"
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - READ_BYTES))
            lines = file.read(READ_BYTES).decode(errors="replace").split("\n")
    except FileNotFoundError:
        lines = []
    # What is wrong, and what to do, stand on lines of their own.
    last = " ".join([line.strip() for line in lines if line.strip()][-SHOWN_LINES:]) or "it said nothing"
    # Whoever took it over writes there, too, and this is shown on a terminal.
    shown = "".join(letter if letter.isprintable() else "?" for letter in last[-SHOWN_LETTERS:])
    return f"does not answer: {shown} ({path})"


def _answers(path: Path, question: str) -> bool:
    link = _SocketConnection(path)
    try:
        link.connect()
        # The socket's own timeout begins anew with each byte of an answer that comes slowly.
        with Alarm(ANSWER_SECONDS, link.cut):
            link.request("GET", question)
            return link.getresponse().status in (http.HTTPStatus.OK, http.HTTPStatus.NO_CONTENT)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to it."""
        self.sock = self._wire = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def cut(self) -> None:
        """End the answer where it is."""
        # It may have come to its end meanwhile.
        with suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)
