"""A client that sends more than anybody needs loses its session; those who drive go on meanwhile."""

import contextlib
import threading
from collections.abc import Iterator

import pytest

from deskyard.gateway.view.websocket import BINARY, PING, frame
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.gateway.talkers import Talker
from tests.gateway.vnc_client import ACTING, KEY, VncClient, opens_nothing

ONE_BYTE_FRAMES = b"".join(frame(BINARY, bytes([byte])) for byte in ACTING[KEY]) * 1000
PINGS = frame(PING, b"") * 8000
ONE_FRAME = frame(BINARY, ACTING[KEY] * 100_000)
LONG_FRAMES = frame(PING, bytes(125)) * 1000
FLOODS = (ONE_BYTE_FRAMES, PINGS, ONE_FRAME, LONG_FRAMES)
ROUNDS = 300  # of a flood, at most: 17 MB


@pytest.fixture
def busy() -> Iterator[tuple[Gateway, Talker]]:
    """A gateway whose desktops speak RFB."""
    talker = Talker(lambda: 0)
    with run_gateway(Gateway(talk=talker)) as gateway:
        talker.terminal_port = lambda: gateway.ports["terminal"]
        yield gateway, talker


def flood(client: VncClient, data: bytes) -> None:
    """Send until the other side has enough."""
    with contextlib.suppress(OSError):
        for _ in range(ROUNDS):
            client.raw(data)


def revocations(gateway: Gateway, id: str) -> list[str]:
    return [line["reason"] for line in gateway.audit() if line["event"] == "revoke" and line["session"] == id]


def ended(gateway: Gateway, id: str, cookie: str) -> list[str]:
    """The reasons of a session's end, once it is over and opens nothing more."""
    reasons: list[str] = wait_for("the audit", lambda: revocations(gateway, id))
    wait_for("the refusal", lambda: opens_nothing(gateway, cookie))
    return reasons


def test_flood_ends_its_session_with_the_reason_while_drivers_go_on(busy: tuple[Gateway, Talker]) -> None:
    gateway, talker = busy
    _, cookie = gateway.session("d1")
    _, other = gateway.session("d2")
    drivers = VncClient(gateway, cookie), VncClient(gateway, other, "d2")
    for data in FLOODS:
        id, looking = gateway.session("d1", mode="view")
        flooding = VncClient(gateway, looking)
        keys = len(talker.keys)
        thread = threading.Thread(target=flood, args=(flooding, data), daemon=True)
        thread.start()
        for driver in drivers:
            driver.say(ACTING[KEY])
            driver.echo()
        assert talker.keys[keys:] == [ord("k")] * 2
        thread.join(60)
        assert not thread.is_alive(), "the flood goes on"
        assert flooding.closes()
        (reason,) = ended(gateway, id, looking)
        assert reason.startswith("flood: more than")
    for driver in drivers:
        driver.picture()


def test_flood_while_the_session_service_is_away_ends_the_session_when_it_is_back(busy: tuple[Gateway, Talker]) -> None:
    gateway, _ = busy
    id, cookie = gateway.session("d1", mode="view")
    client = VncClient(gateway, cookie)
    service = gateway.processes[0]
    service.kill()
    service.wait(10)
    flood(client, ONE_BYTE_FRAMES)
    assert client.closes()
    gateway.start_service()
    assert ended(gateway, id, cookie)


def test_paste_of_the_longest_text_and_a_hurried_hand_are_no_flood(busy: tuple[Gateway, Talker]) -> None:
    gateway, talker = busy
    _, cookie = gateway.session("d1")
    client = VncClient(gateway, cookie)
    text = bytes(1024 * 1024 - 8)
    paste = b"\x06\0\0\0" + len(text).to_bytes(4, "big") + text
    for start in range(0, len(paste), 10240):  # as noVNC cuts it
        client.say(paste[start : start + 10240])
    for _ in range(1000):
        client.say(ACTING[KEY])
    client.echo()
    assert talker.kinds == [6] + [KEY] * 1000
