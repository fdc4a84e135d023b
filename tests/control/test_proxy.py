"""The limits of Mission Control's proxy, by its own HAProxy: an address or a key that asks too much is told so."""

import json
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from deskyard.control.e2b.declared import Declared
from deskyard.control.ground.folder import Accounts, Folder
from deskyard.control.ground.settings import Settings
from deskyard.control.process import proxy
from deskyard.host.deadline import Deadline
from tests.support.ports import free_ports
from tests.support.pve.certificate import issue
from tests.support.requirements import need_programs, need_root

MOST, SECONDS = 3, 60
NEAR, FAR, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"
# There is no web process behind it: what is let through finds nobody.
THROUGH, TOO_MANY = 503, 429


# Connections at once: in all, of E2B's clients, and of who answers them.
AT_ONCE, OF_CLIENTS, WITHIN = 6, 2, 1


@dataclass(frozen=True)
class Door:
    """A proxy that listens on loopback."""

    port: int
    host: str
    e2b: Declared
    folder: Folder

    def ask(self, source: str, path: str = "/healthz", key: str | None = None) -> tuple[int, dict[str, Any]]:
        """The status of a request from an address, and what was said if it was a limit."""
        return self._said(self._line(source, self.port), path, self.host, key)

    def call(self, source: str, host: str) -> tuple[int, dict[str, Any]]:
        """The same of a call by E2B's clients."""
        return self._said(self._line(source, self.e2b.port), "/sandboxes", host, None)

    def begin(self, seconds: float) -> HTTPSConnection | None:
        """A call of theirs that nobody answered yet; None if it was not taken in so many seconds."""
        line = self._line(NEAR, self.e2b.port, seconds)
        try:
            line.request("GET", "/sandboxes", headers={"Host": f"api.{self.e2b.authority}"})
        except TimeoutError:
            line.close()
            return None
        return line

    def ask_within(self, key: str) -> tuple[int, dict[str, Any]]:
        """The same of who answers those clients, by the socket that is its own."""
        line = HTTPConnection("127.0.0.1", timeout=SECONDS)
        line.sock = socket.socket(socket.AF_UNIX)
        line.sock.connect(str(self.folder.inner_socket))
        return self._said(line, "/api/desktops", self.host, key)

    def _line(self, source: str, port: int, seconds: float = SECONDS) -> HTTPSConnection:
        context = ssl._create_unverified_context()
        return HTTPSConnection("127.0.0.1", port, timeout=seconds, source_address=(source, 0), context=context)

    def _said(self, line: HTTPConnection, path: str, host: str, key: str | None) -> tuple[int, dict[str, Any]]:
        headers = {"Host": host, **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            line.request("GET", path, headers=headers)
            answer = line.getresponse()
            said = answer.read()
            if answer.status != TOO_MANY:
                return answer.status, {}
            assert answer.headers["content-type"] == "application/problem+json" and int(answer.headers["retry-after"])
            return answer.status, json.loads(said)
        finally:
            line.close()


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """A proxy with small limits, which last longer than the test."""
    need_root("gives the proxy its account")
    need_programs("haproxy")
    for name in ("MOST_REQUESTS", "MOST_BY_KEY"):
        monkeypatch.setattr(proxy, name, MOST)
    monkeypatch.setattr(proxy, "MOST_SIGN_INS", 1)
    monkeypatch.setattr(proxy, "MOST_CALLS", 2 * MOST)
    monkeypatch.setattr(proxy, "SECONDS", 600)
    with running(tmp_path) as found:
        yield found


@contextmanager
def running(root: Path) -> Iterator[Door]:
    """A proxy with a folder."""
    port, other = free_ports(2)
    settings = Settings("local", "test.localhost", "127.0.0.1", port)
    answered = Declared("e2b.test.localhost", other)
    folder = Folder(root, Accounts(e2b="nobody"))
    folder.sockets.mkdir()
    made = issue(root)
    folder.certificate.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder.certificate, folder.e2b_certificate):
        path.write_text(made.certificate.read_text() + made.key.read_text())
    file = root / "haproxy.cfg"
    file.write_text(proxy.configuration(settings, folder, answered))
    with subprocess.Popen([shutil.which("haproxy") or "haproxy", "-db", "-f", file]) as process:
        try:
            found = Door(settings.port, settings.host, answered, folder)
            assert Deadline(SECONDS).wait_for(lambda: _listens(found.port) or process.poll() is not None, 0.1)
            assert process.poll() is None
            yield found
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def test_an_address_that_asks_too_much_is_told_so_and_others_go_on(door: Door) -> None:
    assert [door.ask(NEAR)[0] for _ in range(MOST + 1)] == [THROUGH] * MOST + [TOO_MANY]
    _, said = door.ask(NEAR)
    assert (said["status"], said["field"]) == (429, "address")
    assert said["reason"] == f"sent more than {MOST} requests in 600 s" and said["remedy"]
    assert door.ask(FAR)[0] == THROUGH


def test_a_key_has_its_limit_whatever_addresses_it_comes_from(door: Door) -> None:
    sources = [NEAR, NEAR, FAR, FAR]
    assert [door.ask(source, key="dyk_a")[0] for source in sources] == [THROUGH] * MOST + [TOO_MANY]
    assert door.ask(THIRD, key="dyk_a")[1]["field"] == "key"
    assert door.ask(THIRD, key="dyk_b")[0] == THROUGH
    assert door.ask(THIRD)[0] == THROUGH


def test_signing_in_has_a_smaller_limit(door: Door) -> None:
    assert [door.ask(NEAR, "/api/sign-in")[0] for _ in range(2)] == [THROUGH, TOO_MANY]
    assert "to sign in" in door.ask(NEAR, "/api/enrol")[1]["reason"]
    assert door.ask(FAR)[0] == THROUGH


def test_e2b_s_clients_have_a_limit_of_their_own_and_their_names_alone(door: Door) -> None:
    api = f"api.{door.e2b.authority}"
    assert [door.call(NEAR, api)[0] for _ in range(2 * MOST + 1)] == [THROUGH] * 2 * MOST + [TOO_MANY]
    assert door.call(NEAR, api)[1]["reason"] == f"sent more than {2 * MOST} requests in 600 s"
    assert door.call(FAR, f"49983-lab--a.{door.e2b.domain}")[0] == THROUGH
    assert door.ask(NEAR)[0] == THROUGH, "another limit is another's"
    assert [door.call(FAR, host)[0] for host in (door.host, door.e2b.domain, f"api.x{door.e2b.domain}")] == [421] * 3


def test_who_answers_them_has_the_limits_of_their_keys(door: Door) -> None:
    assert [door.ask_within("dyk_a")[0] for _ in range(MOST + 1)] == [THROUGH] * MOST + [TOO_MANY]
    assert door.ask(NEAR, key="dyk_a")[1]["field"] == "key", "a key has one limit, by whichever way it comes"
    assert door.ask_within("dyk_b")[0] == THROUGH
    assert door.folder.inner_socket.stat().st_mode & 0o777 == 0o600


def test_streams_of_e2b_s_clients_leave_connections_to_mission_control(monkeypatch: pytest.MonkeyPatch) -> None:
    need_root("gives the proxy its account")
    need_programs("haproxy")
    for name, most in (("MOST_AT_ONCE", AT_ONCE), ("MOST_OF_CLIENTS", OF_CLIENTS), ("MOST_WITHIN", WITHIN)):
        monkeypatch.setattr(proxy, name, most)
    with ExitStack() as held:
        # Whoever answers is reached by the proxy's account.
        root = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="deskyard-proxy.")))
        root.chmod(0o711)
        door = held.enter_context(running(root))
        silent = held.enter_context(socket.socket(socket.AF_UNIX))
        silent.bind(str(door.folder.e2b_socket))
        door.folder.e2b_socket.chmod(0o666)
        silent.listen(AT_ONCE)
        silent.settimeout(SECONDS)
        for _ in range(OF_CLIENTS):
            line = door.begin(SECONDS)
            assert line is not None
            held.enter_context(closing(line))
            # It lasts until one of both leaves.
            held.enter_context(silent.accept()[0])
        for _ in range(AT_ONCE - OF_CLIENTS):
            if more := door.begin(1):
                held.enter_context(closing(more))
        assert door.ask(FAR)[0] == THROUGH
        assert door.ask_within("dyk_a")[0] == THROUGH


def test_its_limits_of_connections_are_taken_and_leave_half_to_people(tmp_path: Path) -> None:
    need_root("gives the proxy its account")
    need_programs("haproxy")
    assert 0 < proxy.MOST_OF_CLIENTS + proxy.MOST_WITHIN <= proxy.MOST_AT_ONCE / 2
    with running(tmp_path) as door:
        assert door.ask(NEAR)[0] == door.ask_within("dyk_a")[0] == THROUGH
