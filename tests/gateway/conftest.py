"""One gateway for all tests of this folder that do not break it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from deskyard.computer.application import create
from deskyard.computer.envd.part import Envd
from deskyard.computer.work.part import Work
from deskyard.image.build import gateway_bundle
from tests.gateway.desktops import FakeDesktops
from tests.gateway.support import HOSTNAME, Gateway
from tests.support.listening import listening
from tests.support.requirements import need_programs, need_root
from tests.unit.computer.serving import home_of


@pytest.fixture(scope="session")
def gateway() -> Iterator[Gateway]:
    """A running gateway with the desktops d1 and d2."""
    with run_gateway(Gateway()) as running:
        yield running


@pytest.fixture
def own_gateway() -> Iterator[Gateway]:
    """A running gateway that a test may break."""
    with run_gateway(Gateway()) as running:
        yield running


@pytest.fixture(scope="session")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the viewer, built as for the image."""
    need_programs("npm", "node")
    bundle = tmp_path_factory.mktemp("bundle") / "gateway"
    gateway_bundle.build(bundle)
    return bundle / "assets"


LIVED = "127.0.1.10"


class Lived(Gateway):
    """A gateway whose desktop d1 has the real service for files and processes; that of d2 says what it is asked."""

    def play_desktops(self) -> FakeDesktops:
        played = [(LIVED, self.ports["desktop"]), (LIVED, self.ports["terminal"])]
        return FakeDesktops([*played, (self.names["d2"], self.ports["computer"])])


def patient(configuration: str) -> str:
    """A door that waits long where it is short of time: beside other tests its clients may stand still."""
    for wait in ("connect 3s", "http-request 5s", "client 10s", "queue 3s"):
        assert f"timeout {wait}\n" in configuration
        configuration = configuration.replace(f"timeout {wait}\n", f"timeout {wait.split()[0]} 1m\n")
    return configuration


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A running gateway with a service behind it that works, in a home of its own."""
    with run_gateway(Lived(weaken=patient)) as running, home_of(tmp_path_factory.mktemp("lived")) as home:
        work = Work(home)
        listener = listening(LIVED, running.ports["computer"])
        config = uvicorn.Config(create([work, Envd(work)]), log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield running
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def authority(lived: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of that gateway's CA; its name leads here."""
    find = socket.getaddrinfo

    def here(host: Any, *rest: Any, **named: Any) -> Any:
        return find("127.0.0.1" if host in (HOSTNAME, HOSTNAME.encode()) else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    (tmp_path / "ca.pem").write_text(lived.issuer.pem)
    return str(tmp_path / "ca.pem")


@contextmanager
def run_gateway(running: Gateway) -> Iterator[Gateway]:
    """Start a gateway; leave the test out, with the reason, where that cannot be."""
    need_root("HAProxy changes its user")
    need_programs("haproxy", "nft", "dnsmasq")
    try:
        running.start()
    except BaseException:
        for log in ("haproxy.log", "service.log", "view.log"):
            path = running.root / log
            print(path.read_text() if path.exists() else f"no {log}")
        running.stop()
        raise
    yield running
    running.stop()
