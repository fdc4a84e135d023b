"""Who opens the page of a desktop that does not answer sees how far it is; who may drive it is heard to want it."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.awaiting.awaiting import PAGES_PER_SESSION
from deskyard.gateway.session import line
from deskyard.wire import session_requests
from deskyard.wire.stages import OF_HOST
from tests.gateway.conftest import run_gateway
from tests.gateway.desktops import FakeDesktops
from tests.gateway.support import Gateway, Opened, wait_for
from tests.gateway.talkers import Talker

OFF, ON = {"desktop": False, "terminal": False}, {"desktop": True, "terminal": True}


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    """A gateway whose desktops greet as real ones do, and whose door is as patient with them as with people."""
    talker = Talker(lambda: 0)
    with run_gateway(Gateway(talk=talker, weaken=impatient)) as running:
        talker.terminal_port = lambda: running.ports["terminal"]
        yield running


def impatient(configuration: str) -> str:
    assert "timeout client 10s\n" in configuration
    assert "timeout server 30s\n" in configuration
    return configuration.replace("timeout server 30s\n", "timeout server 10s\n")


@pytest.fixture(autouse=True)
def off(door: Gateway) -> Iterator[None]:
    """The desktops are off, and nobody waits for them."""
    switch_off(door)
    door.revoke(all=True)
    yield
    switch_off(door)


def switch_off(gateway: Gateway) -> None:
    gateway.desktops.close()
    gateway.desktops.hang_up()


def switch_on(gateway: Gateway, *routes: str) -> None:
    """Have these routes of d1 answer, or all of them."""
    places = [(gateway.names["d1"], gateway.ports[route]) for route in routes or gateway.ports]
    gateway.desktops = FakeDesktops(places, gateway.talk)


class Person:
    """Somebody whose page waits for its desktop."""

    def __init__(self, gateway: Gateway, **options: Any) -> None:
        self._gateway = gateway
        self.id, self.cookie = gateway.session("d1", **options)
        self.page = waits(gateway, {"Cookie": self.cookie})

    def sees(self, what: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first news that is so."""
        assert self.page.status == 200, self.page.head
        while True:
            _, _, news = self.page.read_until(b"\n\n").partition(b"data: ")
            if news and what(facts := json.loads(news)):
                return dict(facts)

    def wants(self) -> int:
        return wants(self._gateway, {"Cookie": self.cookie})

    def listed(self) -> int | None:
        """What the host reads of it."""
        (mine,) = (session for session in self._gateway.listing() if session["id"] == self.id)
        return mine["wanted"]  # type: ignore[no-any-return]


def waits(gateway: Gateway, who: dict[str, str], path: str = "/d/d1/events") -> Opened:
    lines = [f"GET {path} HTTP/1.1", f"Host: {gateway.authority}", *(f"{name}: {text}" for name, text in who.items())]
    return gateway.raw("\r\n".join([*lines, "", ""]))


def wants(gateway: Gateway, who: dict[str, str], path: str = "/d/d1/drive") -> int:
    headers = {"Origin": gateway.origin, **who}
    return gateway.request("POST", path, '{"action": "wake"}', headers)[0].status


def is_told(state: str, news: dict[str, Any]) -> bool:
    """Whether a page was told what its host made of it."""
    return bool(news["waking"] == state)


def answering(news: dict[str, Any]) -> dict[str, bool] | None:
    """Which routes a page is shown as ready; None before anybody has looked."""
    routes = news["routes"]
    return routes and {name: route["state"] == "ready" for name, route in routes.items()}


def is_in(state: str, news: dict[str, Any]) -> bool:
    """Whether a page was told that its desktop is there."""
    return bool(news["state"] == state)


def noted(gateway: Gateway, id: str) -> list[dict[str, Any]]:
    return [line for line in gateway.audit() if line["event"] == "want" and line.get("session") == id]


def test_who_waits_sees_each_stage_until_the_desktop_answers(door: Gateway) -> None:
    person = Person(door, actor="ann")
    seen = person.sees(answering)
    assert (answering(seen), seen["wanted"], person.listed()) == (OFF, False, None)
    assert person.wants() == 200
    assert answering(person.sees(lambda news: news["wanted"])) == OFF
    assert person.listed() in range(60)
    assert person.sees(lambda news: news["heard"])["wanted"]
    switch_on(door, "terminal")
    seen = person.sees(lambda news: answering(news) != OFF)
    assert (answering(seen), seen["state"]) == ({"desktop": False, "terminal": True}, "booting")
    switch_off(door)
    switch_on(door)
    seen = person.sees(lambda news: answering(news) == ON)
    assert (seen["wanted"], person.listed(), seen["state"]) == (False, None, "ready")
    assert seen["since"] == max(route["since"] for route in seen["routes"].values())
    assert seen["usual_seconds"] >= 0
    (line,) = noted(door, person.id)
    assert (line["actor"], line["desktop"], line["result"]) == ("ann", "d1", "wanted")


def test_who_waits_sees_what_the_host_made_of_it(door: Gateway) -> None:
    person = Person(door)
    assert person.wants() == 200
    for state in session_requests.WAKINGS:
        assert line.ask(door.layout.admin_socket, session_requests.waking("d1", state)) == {"wanted": True}
        assert person.sees(partial(is_told, state))["wanted"]
    assert line.ask(door.layout.admin_socket, session_requests.waking("d2", "starts")) == {"wanted": False}
    for wrong in ({"state": "sleeps"}, {"state": None}):
        with pytest.raises(GatewayError):
            line.ask(door.layout.admin_socket, {**session_requests.waking("d1", "starts"), **wrong})


def test_who_waits_sees_where_the_host_has_its_desktop_and_since_when(door: Gateway) -> None:
    person, tell = Person(door), partial(line.ask, door.layout.admin_socket)
    at = int(time.time()) - 60
    for state in OF_HOST:
        assert tell(session_requests.stages({"d1": (state, at), "d9": (state, at)})) == {"news": ["d1"]}
        assert tell(session_requests.stages({"d1": (state, at)})) == {"news": []}
        seen = person.sees(partial(is_in, state))
        assert (seen["since"], answering(seen) in (None, OFF)) == (at, True)
    for wrong in ({"state": "ready"}, {"state": "asleep"}, {"at": "noon"}, {"at": 0}, {"at": True}, {"at": None}):
        with pytest.raises(GatewayError):
            tell({"command": "stages", "desktops": {"d1": {"state": "stopped", "at": at, **wrong}}})
    for rubbish in (None, ["d1"], {"d1": "stopped"}, {"d1": {"state": "stopped"}}):
        with pytest.raises(GatewayError):
            tell({"command": "stages", "desktops": rubbish})


def test_who_only_watches_sees_how_far_it_is_and_wants_nothing(door: Gateway) -> None:
    watching = Person(door, mode="view")
    assert answering(watching.sees(answering)) == {"desktop": False}
    assert (watching.wants(), watching.listed(), noted(door, watching.id)) == (403, None, [])
    driving = Person(door)
    assert driving.wants() == 200
    assert watching.sees(lambda news: news["wanted"])


def test_program_waits_by_no_page_and_its_token_is_no_cookie(door: Gateway) -> None:
    id, bearer = door.program()
    token = bearer["Authorization"].removeprefix("Bearer ")
    cookie = {"Cookie": f"__Host-deskyard-d1={token}"}
    assert (waits(door, bearer).status, waits(door, cookie).status, wants(door, cookie)) == (403, 401, 401)
    assert (noted(door, id), {session["wanted"] for session in door.listing()}) == ([], {None})


def test_nothing_is_wanted_without_a_page_that_waits(door: Gateway) -> None:
    id, cookie = door.session("d1")
    assert (wants(door, {"Cookie": cookie}), noted(door, id)) == (409, [])
    page = waits(door, {"Cookie": cookie})
    wait_for("the page to wait", lambda: wants(door, {"Cookie": cookie}) == 200)
    page.line.close()
    wait_for("the end of the want", lambda: {session["wanted"] for session in door.listing()} == {None})


def test_nobody_else_wants_it(door: Gateway) -> None:
    _, cookie = door.session("d2")
    other = cookie.replace("-d2=", "-d1=")
    for who in ({}, {"Cookie": other}, {"Cookie": "__Host-deskyard-d1=x"}):
        assert (wants(door, who), waits(door, who).status) == (401, 401)
    _, mine = door.session("d1")
    assert wants(door, {"Cookie": mine, "Origin": "https://evil.test"}) == 403
    assert {session["wanted"] for session in door.listing()} == {None}


def test_session_that_is_revoked_waits_no_longer_and_wants_nothing(door: Gateway) -> None:
    person, other = Person(door), Person(door)
    person.sees(answering)
    assert person.wants() == 200
    other.sees(lambda news: news["wanted"])
    door.revoke(person.id)
    # The last chunk of the answer.
    person.page.read_until(b"\r\n0\r\n\r\n")
    assert (person.wants(), person.listed()) == (401, None)
    assert not other.sees(lambda news: not news["wanted"])["heard"]


def test_flood_of_pages_and_wants_is_one_want_and_leaves_room_for_others(door: Gateway) -> None:
    person = Person(door)
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: person.wants(), range(100))) == {200}
        pages = list(pool.map(lambda _: waits(door, {"Cookie": person.cookie}), range(20)))
    assert len(noted(door, person.id)) == 1
    assert sorted(page.status for page in pages) == [200] * (PAGES_PER_SESSION - 1) + [429] * (21 - PAGES_PER_SESSION)
    assert Person(door).page.status == 200
    for page in [person.page, *pages]:
        page.line.close()
    wait_for("the end of the want", lambda: person.listed() is None)
    wait_for("room again", lambda: waits(door, {"Cookie": person.cookie}).status == 200)


def test_page_that_waits_long_is_kept_though_nothing_changes(door: Gateway) -> None:
    person = Person(door)
    person.sees(answering)
    # Longer than the door's patience.
    still = [person.page.read_until(b"\n\n") for _ in range(3)]
    assert all(b": still here" in line for line in still)
    assert person.wants() == 200
    assert person.sees(lambda news: news["wanted"])
