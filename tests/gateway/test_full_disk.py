"""A gateway whose disk is full says so, ends what is to end, and goes on by itself when there is room."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.session.audit_check import verify
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.gateway.talkers import Talker
from tests.gateway.vnc_client import ACTING, KEY, VncClient, opens_nothing
from tests.support.requirements import need_root


@pytest.fixture
def small() -> Iterator[Gateway]:
    """A gateway that keeps what it remembers on a disk of its own, of 4 MiB."""
    talker = Talker(lambda: 0)
    gateway = Gateway(talk=talker)
    disk = gateway.root / "var"
    disk.mkdir()
    need_root("mounts a disk of its own")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "none", str(disk)], check=True, timeout=60)
    try:
        with run_gateway(gateway):
            talker.terminal_port = lambda: gateway.ports["terminal"]
            yield gateway
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False, timeout=60)
        shutil.rmtree(gateway.root, ignore_errors=True)


def fill(gateway: Gateway) -> Path:
    """Take all room there is."""
    ballast = gateway.root / "var/ballast"
    with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(bytes(4096)):
            pass
    return ballast


def refused(call: Any, *arguments: Any) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        call(*arguments)
    return caught.value


def state(gateway: Gateway, id: str) -> str:
    return next(str(session["state"]) for session in gateway.listing() if session["id"] == id)


def test_full_disk_is_named_and_everything_goes_on_when_there_is_room(small: Gateway) -> None:
    ticket = small.grant("d1")["ticket"]
    _, cookie = small.session("d2")
    ballast = fill(small)
    for _ in range(10):  # more than a session may have connections: none is counted that did not open
        error = refused(small.grant, "d1")
        assert error.field == "disk"
        assert error.value in (str(small.layout.state), str(small.layout.audit_file.parent))
        assert "full" in error.reason
        assert "make room" in error.remedy
        status, facts, _ = small.redeem(ticket)
        assert (status, facts["error"]) == (503, "disk")
        assert small.request("POST", "/d/d2/renew", "{}", {"Cookie": cookie, "Origin": small.origin})[0].status == 503
        assert VncClient(small, cookie, "d2").status != 101
    ballast.unlink()
    client = VncClient(small, cookie, "d2")
    client.say(ACTING[KEY])
    client.echo()
    assert small.grant("d1")["ticket"]
    assert small.redeem(ticket)[0] == 200
    assert verify(small.layout.audit_file)["ok"]


def test_session_ends_on_a_full_disk_and_stays_ended(small: Gateway) -> None:
    first, cookie = small.session("d1")
    others = [small.session("d1", mode="view")[0] for _ in range(30)]
    client = VncClient(small, cookie)
    ballast = fill(small)
    client.say(ACTING[KEY])
    client.echo()
    small.revoke(first)
    assert client.closes()
    small.revoke(all=True)
    assert {state(small, id) for id in (first, *others)} == {"revoked"}
    service = small.processes[0]
    service.kill()
    service.wait(10)
    small.start_service()  # also with nothing free
    assert {state(small, id) for id in (first, *others)} == {"revoked"}
    wait_for("the refusal", lambda: opens_nothing(small, cookie))
    ballast.unlink()
    assert small.grant("d1")["ticket"]
    assert verify(small.layout.audit_file)["ok"]
