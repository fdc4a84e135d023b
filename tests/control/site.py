"""Mission Control as the host brings it up: proxy, certificate of the site's authority, and all processes."""

import json
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from deskyard.control import control
from deskyard.control.control import Control
from deskyard.control.ground.folder import Folder
from deskyard.control.process import pages
from tests.control.lab import ACCOUNTS, WAIT_SECONDS
from tests.support.ports import free_ports

HOST = "mission.localhost"


class Site:
    """A Mission Control with a folder and a port of its own."""

    def __init__(self, root: Path) -> None:
        self.control = Control(Folder(root / "control", ACCOUNTS))
        (self.port,) = free_ports(1)
        self.stacks = root / "stacks"
        self.authority = root / "state/sites/local/ca.pem"
        self.state: dict[str, Any] = {}

    @property
    def url(self) -> str:
        """Its origin."""
        return f"https://{HOST}:{self.port}"

    def get(self, path: str, host: str | None = None, **headers: str) -> tuple[HTTPResponse, bytes]:
        """An answer by the proxy, whose certificate has to be the authority's."""
        return self.ask("GET", path, host, **headers)

    def post(self, path: str, document: object, **headers: str) -> tuple[HTTPResponse, bytes]:
        """The answer to a document."""
        headers = {"Content-Type": "application/json", **headers}
        return self._answer("POST", path, None, headers, json.dumps(document).encode())

    def ask(self, method: str, path: str, host: str | None = None, **headers: str) -> tuple[HTTPResponse, bytes]:
        """The same for any method."""
        return self._answer(method, path, host, headers)

    def _answer(
        self, method: str, path: str, host: str | None, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[HTTPResponse, bytes]:
        link = HTTPSConnection(HOST, self.port, timeout=WAIT_SECONDS)
        link.sock = self._connected()
        link.request(method, path, body, headers={"Host": host or f"{HOST}:{self.port}", **headers})
        answer = link.getresponse()
        return answer, answer.read()

    def certificate(self) -> str:
        """The proxy's certificate (PEM), verified against the authority."""
        with self._connected() as wire:
            verified = wire.getpeercert(binary_form=True)
        assert verified is not None
        return ssl.DER_cert_to_PEM_cert(verified)

    def processes(self) -> dict[str, int]:
        """The processes by name."""
        return {name: entry["pid"] for name, entry in json.loads(self.control.folder.processes.read_text()).items()}

    def _connected(self) -> ssl.SSLSocket:
        trust = ssl.create_default_context(cafile=str(self.authority))
        return trust.wrap_socket(socket.create_connection(("127.0.0.1", self.port)), server_hostname=HOST)


@contextmanager
def running(build: Callable[[Path], Any], prepare: Callable[[Site], Any] = lambda _: None) -> Iterator[Site]:
    """A site that is up, and gone at the end; `build` puts the pages into a folder, `prepare` is called before."""
    root = Path(tempfile.mkdtemp(prefix="deskyard-mission."))
    root.chmod(0o711)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESKYARD_HOME", str(root))
        patch.setenv("DESKYARD_STACKS", str(root / "stacks"))
        (root / "stacks").mkdir()
        # How they are built is for tests/web.
        patch.setattr(pages, "build", build)
        # A machine with much to do takes its time to start ten processes.
        patch.setattr(control, "UP_SECONDS", 4 * WAIT_SECONDS)
        found = Site(root)
        try:
            prepare(found)
            found.state = found.control.up(port=found.port)
            yield found
        finally:
            found.control.down()
            shutil.rmtree(root)
