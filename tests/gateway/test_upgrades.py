"""What the door is asked to speak: HTTP/1.1 and nothing before it, and to a terminal the terminal's own protocol."""

import json
import struct

import pytest

from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.gateway.test_weakened import changed

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:] + b"\x04\x00" + bytes(4)  # and empty SETTINGS
SETTINGS = 4


def first_frame_kind(gateway: Gateway) -> int | None:
    """What a client that speaks HTTP/2 without having agreed on it gets: a frame's kind, or None if it is no frame."""
    with gateway.connect() as line:
        line.sendall(PREFACE)
        got = b""
        while len(got) < 9:
            try:
                part = line.recv(4096)
            except OSError:
                return None
            if not part:
                return None
            got += part
        return None if got.startswith(b"HTTP/1") else got[3]


def test_69_http_2_by_prior_knowledge_is_refused(gateway: Gateway) -> None:
    assert first_frame_kind(gateway) is None
    assert gateway.request("GET", "/healthz")[0].status == 200


def test_69_door_that_answers_http_2_is_noticed() -> None:
    with run_gateway(Gateway(weaken=changed((" proto h1", "")))) as weak:
        assert first_frame_kind(weak) == SETTINGS


@pytest.mark.parametrize("asked", ["chat", "binary, base64", "TTY", "tty2"])
def test_73_foreign_protocol_of_a_terminal_is_named_and_the_desktop_is_not_asked(
    own_gateway: Gateway, asked: str
) -> None:
    gateway = own_gateway
    _, cookie = gateway.session("d1")
    # As ttyd does it: no upgrade at all for a protocol that it does not know.
    gateway.desktops.answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    opened = gateway.upgrade("/d/d1/terminal", cookie, Sec_WebSocket_Protocol=asked)
    said = json.loads(opened.rest)
    assert (opened.status, said["error"]) == (400, "protocol")
    assert "tty" in said["message"]
    assert gateway.desktops.requests == []
    refused = wait_for("its line", lambda: [event for event in gateway.audit() if event["event"] == "refuse"])
    assert [event["reason"] for event in refused] == ["protocol"]


@pytest.mark.parametrize("asked", ["tty", "chat, tty", None])
def test_73_terminal_opens_with_its_own_protocol_or_with_none(gateway: Gateway, asked: str | None) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade("/d/d1/terminal", cookie, Sec_WebSocket_Protocol=asked).status == 101


def test_73_protocol_is_looked_at_after_the_session(gateway: Gateway) -> None:
    assert gateway.upgrade("/d/d1/terminal", None, Sec_WebSocket_Protocol="chat").status == 401


@pytest.mark.parametrize("asked", ["binary", "tty", None])
def test_73_picture_of_a_desktop_opens_whatever_protocol_is_asked_for(gateway: Gateway, asked: str | None) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade("/d/d1/vnc", cookie, Sec_WebSocket_Protocol=asked).status == 101
