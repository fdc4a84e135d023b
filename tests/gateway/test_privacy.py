"""While a person who drives wants privacy, no program comes through the door: refused, and cut, by HAProxy itself."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deskyard.gateway.config import render
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, Opened, wait_for
from tests.gateway.test_weakened import without

SCREEN = "/d/d1/computer/v1/screen"
WAIT = "/d/d1/computer/v1/wait"
EVENTS = "/d/{}/computer/v1/events"
HIDDEN = [("GET", "screen"), ("POST", "act"), ("GET", "files"), ("POST", "processes/run"), ("GET", "wait")]


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    """A gateway whose drivers have left after a second."""
    with run_gateway(Gateway(changes={"driver_away_seconds": 1.0})) as running:
        yield running


class Person:
    """Somebody whose page shows the desktop."""

    def __init__(self, gateway: Gateway, **options: Any) -> None:
        self._gateway = gateway
        self.id, self.cookie = gateway.session("d1", **options)
        self.screen: Opened = gateway.upgrade("/d/d1/vnc", self.cookie)
        assert self.screen.status == 101

    def does(self, action: str) -> tuple[int, dict[str, Any]]:
        headers = {"Cookie": self.cookie, "Origin": self._gateway.origin}
        answer, data = self._gateway.request("POST", "/d/d1/drive", json.dumps({"action": action}), headers)
        return answer.status, json.loads(data)

    def facts(self) -> dict[str, Any]:
        """What the page knows."""
        return dict(json.loads(self._gateway.request("GET", "/d/d1/session", headers={"Cookie": self.cookie})[1]))

    def hides(self) -> None:
        """Want privacy; it is in force when that is answered."""
        status, facts = self.does("hide")
        assert (status, facts.get("private")) == (200, True), facts

    def leaves(self) -> None:
        self.screen.line.close()


@pytest.fixture
def person(door: Gateway) -> Person:
    """The one who drives; nobody else is there."""
    door.revoke(all=True)
    wait_for("the end of the sessions before", lambda: all(not session["streams"] for session in door.listing()))
    _, bearer = door.program()
    wait_for("the end of the privacy before", lambda: sees(door, bearer))
    somebody = Person(door)
    assert somebody.facts()["drives"]
    return somebody


def asks(gateway: Gateway, bearer: dict[str, str], path: str = SCREEN, method: str = "GET", body: str = "") -> Any:
    answer, data = gateway.request(method, path, body or None, bearer)
    return answer.status, data.decode()


def sees(gateway: Gateway, bearer: dict[str, str]) -> bool:
    status, text = asks(gateway, bearer)
    assert status in (200, 423), text
    return bool(status == 200)


def test_program_sees_nothing_while_the_driver_wants_privacy(door: Gateway, person: Person) -> None:
    _, bearer = door.program()
    assert sees(door, bearer)
    assert person.facts()["private"] is False
    person.hides()
    for method, path in HIDDEN:
        before = len(door.desktops.requests)
        status, text = asks(door, bearer, f"/d/d1/computer/v1/{path}", method, "{}" if method == "POST" else "")
        assert status == 423, path
        assert (json.loads(text)["error"], "privacy.off" in json.loads(text)["remedy"]) == ("privacy", True)
        assert not [request for request in door.desktops.requests[before:] if f"/v1/{path}" in request]
    assert door.upgrade(EVENTS.format("d1"), Origin=None, **bearer).status == 423
    assert person.does("show")[1]["private"] is False
    wait_for("the program sees again", lambda: sees(door, bearer))


def test_what_a_program_is_refused_for_privacy_is_in_the_audit(door: Gateway, person: Person) -> None:
    _, bearer = door.program()
    person.hides()
    assert asks(door, bearer)[0] == 423

    def refused() -> bool:
        return any(line.get("reason") == "privacy" and line.get("status") == 423 for line in door.audit())

    wait_for("the refusal in the audit", refused)


def test_program_may_wait_for_the_end_and_for_nothing_else(door: Gateway, person: Person) -> None:
    _, bearer = door.program()
    person.hides()
    status, text = asks(door, bearer, WAIT, "POST", '{"event": "privacy.off", "within_ms": 60000}')
    assert (status, text.split(" HTTP", 1)[0]) == (200, "POST /v1/wait")
    for body in ('{"event": "window.title"}', '{"match": {"event": "privacy.off"}}', '"privacy.off"', "{}", ""):
        assert asks(door, bearer, WAIT, "POST", body)[0] == 423, body
    assert asks(door, bearer, f"{WAIT}/x", "POST", '{"event": "privacy.off"}')[0] == 423


def test_what_a_program_has_open_is_cut_and_what_people_have_stays(door: Gateway, person: Person) -> None:
    _, bearer = door.program("d1")
    _, other = door.program("d2")
    spectator = Person(door, mode="view")
    events = door.upgrade(EVENTS.format("d1"), Origin=None, **bearer)
    elsewhere = door.upgrade(EVENTS.format("d2"), Origin=None, **other)
    events.read_until(b"|"), elsewhere.read_until(b"|")
    person.hides()
    assert events.closes()
    assert "still" in elsewhere.echo("still")
    for viewer in (person, spectator):
        viewer.screen.read_until(b"|")
        assert "there" in viewer.screen.echo("there")
    assert spectator.facts()["private"] is True, "people are told"
    assert door.upgrade("/d/d1/terminal", person.cookie).status == 101
    assert asks(door, other, SCREEN.replace("d1", "d2"))[0] == 200


def test_session_that_does_not_drive_hides_and_shows_nothing(door: Gateway, person: Person) -> None:
    _, bearer = door.program()
    others = [Person(door, mode="view"), Person(door)]
    for other in others:
        assert other.does("hide")[0] == 409
    assert sees(door, bearer)
    person.hides()
    for other in others:
        assert other.does("show")[0] == 409
    headers = {**bearer, "Origin": door.origin}
    for action in ("show", "hide"):
        assert door.request("POST", "/d/d1/drive", json.dumps({"action": action}), headers)[0].status == 409
    assert not sees(door, bearer)


ENDS: dict[str, Callable[[Gateway, Person, Person], object]] = {
    "asked for": lambda gateway, person, other: person.does("show"),
    "handed over": lambda gateway, person, other: person.does("hand-over"),
    "taken": lambda gateway, person, other: other.does("take"),
    "left": lambda gateway, person, other: person.leaves(),
    "session ended": lambda gateway, person, other: gateway.revoke(person.id),
}


@pytest.mark.parametrize("reason", ENDS)
def test_privacy_ends_with_the_drive_and_the_audit_says_how(door: Gateway, person: Person, reason: str) -> None:
    _, bearer = door.program()
    other = Person(door)
    person.hides()
    assert not sees(door, bearer)
    ENDS[reason](door, person, other)
    wait_for("the program sees again", lambda: sees(door, bearer))
    noted = [line for line in door.audit() if line["event"] == "privacy" and line["session"] == person.id]
    assert [(line["result"], line["reason"]) for line in noted] == [("on", "asked for"), ("off", reason)]
    assert {line["actor"] for line in noted} == {"tester"}
    wait_for("the page is told", lambda: other.facts()["private"] is False)


def test_privacy_outlives_a_new_worker_and_a_new_service(door: Gateway, person: Person) -> None:
    _, bearer = door.program()
    person.hides()
    door.reload()
    assert not sees(door, bearer), "a worker begins with what is wanted"
    service = door.processes[0]
    service.terminate()
    service.wait(20)
    assert not sees(door, bearer), "HAProxy refuses by itself"
    door.processes[0] = door.start_service()
    door.processes.pop()
    assert not sees(door, bearer)
    wait_for("the drive is known", lambda: person.facts()["drives"])
    wait_for("it is in force", lambda: person.facts()["private"])
    assert person.does("show")[0] == 200
    wait_for("the program sees again", lambda: sees(door, bearer))


def test_service_of_the_desktop_is_told_when_it_begins_and_when_it_is_over(door: Gateway, person: Person) -> None:
    def heard_words() -> list[bool]:
        heard = [
            request.partition("\r\n\r\n")[2]
            for request in list(door.desktops.requests)[before:]
            if request.startswith("PUT /v1/privacy ") and "x-deskyard-scopes" not in request.lower()
        ]
        return [json.loads(body)["on"] for body in heard]

    before = len(door.desktops.requests)
    person.hides()
    wait_for("the word that it is on", lambda: heard_words()[:1] == [True])
    person.does("show")
    wait_for("the word that it is over", lambda: heard_words()[-1] is False)


def test_door_that_lets_programs_in_all_the_same_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    good = render.backends
    monkeypatch.setattr(render, "backends", lambda *values: without("status 423")(good(*values)))
    with run_gateway(Gateway()) as weak:
        person = Person(weak)
        with pytest.raises(AssertionError):
            test_program_sees_nothing_while_the_driver_wants_privacy(weak, person)
