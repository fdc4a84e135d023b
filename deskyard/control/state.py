"""How Mission Control of this machine is: whether it runs and answers, and each of its processes.

Apart from what brings it up, which imports the database's tools and the API: who only asks need not wait for those.
"""

import http.client
import socket
from pathlib import Path
from typing import Any

from deskyard.control.e2b import declared
from deskyard.control.folder import Folder
from deskyard.control.process.noted import noted
from deskyard.control.process.settings import kept
from deskyard.control.process.unit import Unit, is_installed
from deskyard.host.background import Background
from deskyard.host.places import places

DOWN_SECONDS = 90.0  # more than its supervisor takes at worst, which ends the processes first and the database last
SUPERVISOR = "supervisor"


def state(folder: Folder) -> dict[str, Any]:
    """Whether it runs, where it is reached, and each of its processes."""
    found = kept(folder)
    running, answered = runs(folder), declared.kept(folder.e2b_declared)
    processes = noted(folder) if running else {}
    return {
        "url": found[0].origin if found else None,
        "site": found[0].site if found else None,
        "running": running,
        "ready": running and ready(folder),
        "processes": processes,
        "database": found[0].database if found else None,
        "e2b_domain": answered.authority if answered else None,
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
    """Whether the web process answers on its socket that all is well, and who answers E2B's clients does."""
    asked = {folder.web_socket: "/readyz"}
    if folder.e2b_declared.exists():
        asked[folder.e2b_socket] = "/health"
    return all(_answers(path, question) for path, question in asked.items())


def _answers(path: Path, question: str) -> bool:
    link = _SocketConnection(path)
    try:
        link.request("GET", question)
        return link.getresponse().status in (http.HTTPStatus.OK, http.HTTPStatus.NO_CONTENT)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=5)
        self._path = path

    def connect(self) -> None:
        """Connect to it."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
