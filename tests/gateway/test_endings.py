"""A desktop is told at once whose session is over, so that it lets go what that holds: the gateway says so itself."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for

EVENTS = "/d/{}/computer/v1/events"


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    with run_gateway(Gateway()) as running:
        yield running


def words(gateway: Gateway, since: int = 0) -> list[dict[str, Any]]:
    """The words that desktops heard."""
    return [json.loads(said.partition("\r\n\r\n")[2]) for said in list(gateway.desktops.endings)[since:]]


def over(gateway: Gateway, since: int = 0) -> set[str]:
    """The sessions that desktops were told of as over."""
    return {session for word in words(gateway, since) for session in word["ended"]}


def sees(gateway: Gateway, bearer: dict[str, str], desktop: str = "d1") -> int:
    return gateway.request("GET", f"/d/{desktop}/computer/v1/screen", None, bearer)[0].status


def test_revoked_session_is_said_to_be_over_and_no_other(door: Gateway) -> None:
    ended, bearer = door.program()
    going_on, other = door.program()
    elsewhere, _ = door.program("d2")
    person, _ = door.session("d1")
    events = door.upgrade(EVENTS.format("d1"), Origin=None, **bearer)
    events.read_until(b"|")
    before = len(door.desktops.endings)
    door.revoke(ended)
    wait_for("the word", lambda: ended in over(door, before))
    assert events.closes()
    door.revoke(person)
    door.revoke(elsewhere)
    wait_for("the word to the other desktop", lambda: elsewhere in over(door, before))
    assert not {going_on, person} & over(door)
    assert sees(door, other) == 200
    assert all(elsewhere not in word["ended"] for word in words(door) if ended in word["ended"]), (
        "each hears of its own"
    )
    assert all(word["gateway_seconds"] > 0 for word in words(door))


@pytest.mark.parametrize("all_of", [{"all": True}, {"desktop": "d1"}])
def test_all_that_are_revoked_at_once_are_said_to_be_over(door: Gateway, all_of: dict[str, Any]) -> None:
    ids = {door.program()[0] for _ in range(3)}
    door.revoke(**all_of)
    wait_for("the word of each", lambda: ids <= over(door))


def test_session_whose_time_is_over_is_said_to_be_over(door: Gateway) -> None:
    lasting, bearer = door.program()
    short, _ = door.program(ttl=1)
    wait_for("the word", lambda: short in over(door))
    assert lasting not in over(door)
    assert sees(door, bearer) == 200


def test_link_that_nobody_opened_ends_nothing(door: Gateway) -> None:
    never = door.grant("d1", mode="agent")["id"]
    door.revoke(never)
    used, _ = door.program()
    door.revoke(used)
    wait_for("the word of the other", lambda: used in over(door))
    assert never not in over(door)


def test_desktops_hear_from_a_filter_that_begins_how_long_the_gateway_ran(door: Gateway) -> None:
    ended, _ = door.program()
    going_on, bearer = door.program()
    door.revoke(ended)
    wait_for("the word", lambda: ended in over(door))
    view = next(process for process in door.processes if "view" in process.args)  # type: ignore[operator]
    before = len(door.desktops.endings)
    view.terminate()
    view.wait(20)
    place = door.processes.index(view)
    door.processes[place] = door.start_view()
    door.processes.pop()
    wait_for("a word for each desktop", lambda: len(words(door, before)) >= 2)
    assert ended in over(door, before), "the filter before may have had no time to say it"
    assert going_on not in over(door, before)
    assert sees(door, bearer) == 200


def test_end_that_came_while_nobody_listened_is_said_later(door: Gateway) -> None:
    """The line to the filter is made anew with each session service."""
    short, _ = door.program(ttl=2)
    service = door.processes[0]
    service.terminate()
    service.wait(20)
    door.processes[0] = door.start_service()
    door.processes.pop()
    wait_for("the word", lambda: short in over(door))
