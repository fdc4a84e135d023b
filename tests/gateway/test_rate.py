"""A program that asks without end is refused by the door: it alone, for as long as it goes on, and with what to do."""

import json
from collections.abc import Iterator

import pytest

from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for

SCREEN = "/d/{}/computer/v1/screen"
# Far more than a second's, whatever the machine: a mean over ten seconds is passed by eleven.
MOST = 500


@pytest.fixture(scope="module")
def slow_door() -> Iterator[Gateway]:
    """A gateway that lets a program ask once a second."""
    with run_gateway(Gateway(changes={"requests_per_second": 1})) as running:
        yield running


def asks(gateway: Gateway, bearer: dict[str, str], desktop: str = "d1") -> tuple[int, dict[str, str], bytes]:
    answer, data = gateway.request("GET", SCREEN.format(desktop), None, bearer)
    return answer.status, dict(answer.headers), data


def test_program_that_floods_is_refused_alone_and_goes_on_when_it_has_rested(slow_door: Gateway) -> None:
    door = slow_door
    id, flooding = door.program()
    _, other = door.program()
    _, cookie = door.session("d1")
    statuses: list[int] = []
    while 429 not in statuses and len(statuses) < MOST:
        statuses.append(asks(door, flooding)[0])
    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= 10, "as many as ten seconds allow"
    status, headers, data = asks(door, flooding)
    problem = json.loads(data)
    assert (status, problem["error"], headers["retry-after"]) == (429, "rate", "10")
    assert "1 times a second" in problem["message"] and "event" in problem["remedy"]
    before = len(door.desktops.requests)
    assert asks(door, flooding)[0] == 429
    assert len(door.desktops.requests) == before, "its desktop hears nothing of it"
    assert asks(door, other)[0] == 200
    assert door.upgrade("/d/d1/vnc", cookie).status == 101
    assert door.request("GET", "/d/d1/session", headers={"Cookie": cookie})[0].status == 200

    def noted() -> list[str]:
        lines = [line for line in door.audit() if line["event"] == "refuse" and line.get("session") == id]
        return [line["reason"] for line in lines]

    wait_for("the refusal in the audit", lambda: noted() == ["rate"])
    # Whoever asks on at once is refused on.
    wait_for("the program to come in again", lambda: asks(door, flooding)[0] == 200, 120, pause=2)


def test_program_that_asks_as_programs_do_is_never_refused(gateway: Gateway) -> None:
    _, bearer = gateway.program()
    assert {asks(gateway, bearer)[0] for _ in range(MOST)} == {200}
