"""A person looks at a stream of a part of the screen: through the same filter, by the same session, and no more."""

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from deskyard.wire.computer import SEE, STREAM_BYTES, STREAM_ID
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.gateway.talkers import Talker
from tests.gateway.vnc_client import ACTING, LOOKING, VncClient

STREAM = "abcDEF012_-9"
PLACE = f"vnc/{STREAM}"


class Half(Gateway):
    """A gateway whose desktop `d2` is of an image without a computer-use service."""

    def document(self) -> dict[str, Any]:
        document = super().document()
        desktop = next(desktop for desktop in document["desktops"] if desktop["name"] == "d2")
        desktop["routes"] = {name: port for name, port in desktop["routes"].items() if name != "computer"}
        return document


@pytest.fixture(scope="module")
def talker() -> Talker:
    return Talker(lambda: 0)


@pytest.fixture(scope="module")
def watched(talker: Talker) -> Iterator[Gateway]:
    with run_gateway(Half(talk=talker)) as gateway:
        yield gateway


@pytest.fixture
def said(watched: Gateway, talker: Talker) -> Talker:
    """Nobody drives, and nothing was said."""
    watched.revoke(all=True)
    wait_for("the end of all connections", lambda: all(not session["streams"] for session in watched.listing()))
    talker.kinds.clear()
    return talker


def use(gateway: Gateway, id: str) -> tuple[int, str | None]:
    found = next(session for session in gateway.listing() if session["id"] == id)
    return found["streams"], found["does"]


def test_ids_that_the_service_draws_are_those_that_the_door_lets_through() -> None:
    assert all(re.fullmatch(STREAM_ID, secrets.token_urlsafe(STREAM_BYTES)) for _ in range(1000))


def test_service_of_streams_hears_whose_connection_it_is_and_that_it_may_see(gateway: Gateway) -> None:
    id, cookie = gateway.session("d1", mode="view")
    forged = {"X_Deskyard_Scopes": "act,shell", "X_Deskyard_Session": "A" * 24, "Authorization": "Bearer x"}
    opened = gateway.upgrade(f"/d/d1/{PLACE}", cookie, Sec_WebSocket_Protocol="binary", **forged)
    assert opened.status == 101
    assert opened.read_until(b"|").decode() == f"{gateway.names['d1']}:{gateway.ports['computer']}"
    request, *lines = gateway.desktops.requests[-1].strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert request == f"GET /v1/streams/{STREAM} HTTP/1.1"
    assert (headers["x-deskyard-session"], headers["x-deskyard-scopes"]) == (id, SEE)
    assert headers.keys().isdisjoint({"cookie", "origin", "authorization"})


def test_no_header_of_a_client_leads_from_the_screen_to_a_stream(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    opened = gateway.upgrade("/d/d1/vnc", cookie, X_Deskyard_Stream=STREAM)
    assert opened.read_until(b"|").decode() == f"{gateway.names['d1']}:{gateway.ports['desktop']}"
    assert "x-deskyard" not in gateway.desktops.requests[-1].lower()


def test_program_that_makes_a_stream_hears_where_people_look_at_it(gateway: Gateway) -> None:
    _, header = gateway.program("d1")
    gateway.request("POST", "/d/d1/computer/v1/streams", "{}", {**header, "X-Deskyard-Page": "https://evil.test/"})
    assert f"\r\nx-deskyard-page: {gateway.origin}/d/d1/\r\n" in gateway.desktops.requests[-1]
    assert "evil.test" not in gateway.desktops.requests[-1]


@pytest.mark.parametrize("drives", [False, True], ids=["alone", "beside the screen that it drives"])
def test_nothing_that_acts_passes_to_a_stream_whoever_drives(watched: Gateway, said: Talker, drives: bool) -> None:
    id, cookie = watched.session("d1")
    screen = [VncClient(watched, cookie)] if drives else []
    part = VncClient(watched, cookie, place=PLACE)
    part.picture()
    for message in (*LOOKING.values(), *ACTING.values()):
        part.say(message)
    part.echo()
    assert said.kinds == list(LOOKING)
    assert use(watched, id) == ((2, "drives") if drives else (1, "watches"))
    assert len(screen) == drives


def test_stream_asks_for_a_session_of_its_desktop_and_ends_with_it(watched: Gateway, said: Talker) -> None:
    id, cookie = watched.session("d1", mode="view")
    _, terminal = watched.session("d1", routes=["terminal"])
    assert VncClient(watched, cookie, "d2", place=PLACE).status == 401
    assert VncClient(watched, "", place=PLACE).status == 401
    assert VncClient(watched, terminal, place=PLACE).status == 403
    part = VncClient(watched, cookie, place=PLACE)
    part.picture()
    watched.revoke(id)
    assert part.closes()
    assert VncClient(watched, cookie, place=PLACE).status == 401


def test_desktop_without_the_service_has_its_screen_and_no_stream(watched: Gateway, said: Talker) -> None:
    _, cookie = watched.session("d2")
    assert VncClient(watched, cookie, "d2", place=PLACE).status == 502
    VncClient(watched, cookie, "d2").picture()
