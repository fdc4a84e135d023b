"""The limits of Mission Control's proxy, by its own HAProxy: an address or a key that asks too much is told so."""

import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from deskyard.control.folder import Accounts, Folder
from deskyard.control.process import proxy
from deskyard.control.process.settings import Settings
from deskyard.host.deadline import Deadline
from tests.support.ports import free_ports
from tests.support.pve.certificate import issue
from tests.support.requirements import need_programs, need_root

MOST, SECONDS = 3, 60
NEAR, FAR, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"
# There is no web process behind it: what is let through finds nobody.
THROUGH, TOO_MANY = 503, 429


@dataclass(frozen=True)
class Door:
    """A proxy that listens on loopback."""

    port: int
    host: str

    def ask(self, source: str, path: str = "/healthz", key: str | None = None) -> tuple[int, dict[str, Any]]:
        """The status of a request from an address, and what was said if it was a limit."""
        headers = {"Host": self.host, **({"Authorization": f"Bearer {key}"} if key else {})}
        context = ssl._create_unverified_context()
        line = HTTPSConnection("127.0.0.1", self.port, timeout=SECONDS, source_address=(source, 0), context=context)
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
    monkeypatch.setattr(proxy, "SECONDS", 600)
    settings = Settings("local", "test.localhost", "127.0.0.1", free_ports(1)[0])
    folder = Folder(tmp_path, Accounts())
    made = issue(tmp_path)
    folder.certificate.parent.mkdir(parents=True, exist_ok=True)
    folder.certificate.write_text(made.certificate.read_text() + made.key.read_text())
    file = tmp_path / "haproxy.cfg"
    file.write_text(proxy.configuration(settings, folder))
    with subprocess.Popen([shutil.which("haproxy") or "haproxy", "-db", "-f", file]) as process:
        try:
            found = Door(settings.port, settings.host)
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
