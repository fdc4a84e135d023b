"""Operations: why they wait, what they say, how they are ended."""

from typing import Any

import pytest

from tests.web.browser import Browser
from tests.web.estate import Estate, ago
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled


def test_the_queue_says_the_place_and_why_something_waits(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.operation("desktop.start", "team-01", "team-01.desk-1", position=3, why="the site is out of memory")
    browser.open("/operations")
    browser.sees("place 3 in the queue: the site is out of memory")
    other = estate.operation("workspace.up", "team-01", why="team-01 is busy")
    browser.sees("team-01 is busy")
    estate.advance(other["id"], state="failed", problem={"reason": "the host went away", "remedy": "Start it"})
    browser.sees("the host went away")


def test_what_ended_while_no_event_was_heard_is_over(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/operations?state=running")
    found = estate.operation("workspace.up", "team-01", state="running")
    browser.sees("bring up team-01")
    estate.operations[found["id"]] |= {"state": "done", "endedAt": ago()}
    estate.tell("reset", {})
    browser.sees("No operations that are running")


def test_desktop_shows_each_line_of_what_is_done_to_it(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    found = estate.operation("desktop.start", "team-01", "team-01.desk-1", state="running")
    # The page hears of it by its lists, before anything is told.
    browser.open("/")
    browser.sees("start: running")
    estate.log(found["id"], "The machine is defined")
    browser.sees("start: The machine is defined")
    estate.log(found["id"], "The machine boots")
    browser.sees("start: The machine boots")


def test_who_waits_moves_up_when_another_begins(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    first = estate.operation("workspace.up", "team-01")
    last = estate.operation("desktop.start", "team-01", "team-01.desk-1", position=2)
    browser.open("/operations")
    browser.sees("place 2 in the queue")
    estate.operations[last["id"]]["position"] = 1
    estate.advance(first["id"], state="running")
    browser.sees("place 1 in the queue")


def test_a_log_is_shown_while_it_is_written(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    operation = estate.operation("desktop.start", "team-01", "team-01.desk-1")
    estate.log(operation["id"], "The machine is defined")
    browser.open(f"/operations/{operation['id']}")
    browser.sees("The machine is defined")
    for number in range(200):
        estate.log(operation["id"], f"line {number}")
    browser.sees("line 199")
    lines = browser.script("return document.querySelectorAll('[role=log] > div').length")
    assert lines == 201
    estate.advance(operation["id"], state="done", endedAt=ago())
    browser.sees("done")


def test_an_operation_is_cancelled_and_tried_again(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    operation = estate.operation("desktop.start", "team-01", "team-01.desk-1")
    browser.open(f"/operations/{operation['id']}")
    browser.click("Cancel")
    browser.sees("cancelled")
    browser.click("Try it again")
    browser.wait("the new one", lambda: browser.path() == f"/operations/{next(reversed(estate.operations))}")
    assert next(reversed(estate.operations)) != operation["id"]
    assert server.asked("POST", f"/api/operations/{operation['id']}/retry") == [{}]


def test_what_does_not_stop_is_ended_by_force_once_it_had_its_time(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.is_stuck = True
    operation = estate.operation("workspace.up", "team-01", state="running", position=None)
    browser.open(f"/operations/{operation['id']}")
    browser.sees_no("by force")
    browser.click("Cancel")
    browser.sees("by force in")
    # The button that takes the place of this is another: what holds on to the first would be left with none.
    enabled = "return !document.querySelector('.row button').disabled"
    assert not browser.script(enabled)
    browser.wait("its time is over", lambda: bool(browser.script(enabled)))
    browser.click("End it by force")
    browser.sees("may be left half done")
    browser.sees("./inv workspace.up team-01")
    # Who looks at what it leaves may still go on without it.
    browser.click("Leave as it is")
    assert server.asked("POST", f"/api/operations/{operation['id']}/cancel") == [{}]
    browser.click("End it by force")
    browser.find("dialog .danger").click()
    browser.sees("cancelled")
    assert server.asked("POST", f"/api/operations/{operation['id']}/cancel") == [{}, {"force": True}]


def held(estate: Estate, asker: str = "person:Eve", **known: Any) -> str:
    """The id of an operation that waits for another person."""
    consent = {"strength": "worker", "asker": asker, "asked": "team-01.desk-1", "needed": 2, "until": ago(hours=-20)}
    consent |= {"answers": [{"actor": "person:Bob", "answer": "allow", "at": ago()}]} | known
    why = f"2 others have to allow it beside {asker}"
    found = estate.operation(
        "desktop.destroy", "team-01", "team-01.desk-1", state="waiting", position=None, why=why, consent=consent
    )
    return str(found["id"])


def test_what_waits_for_another_person_is_seen_and_allowed_with_a_signature(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    id = held(estate)
    browser.open("/approvals")
    browser.sees("2 others have to allow it beside person:Eve")
    browser.wait("its list", lambda: server.asked("GET", "/api/approvals"))
    assert "Nothing waits for you" not in browser.text()
    browser.click("destroy team-01.desk-1")
    browser.sees("Eve wants to destroy: team-01.desk-1")
    browser.sees("Allowed by Bob")
    browser.click("Allow it")
    browser.click("Allow it, signed by my passkey")
    path = f"/api/operations/{id}/decide"
    browser.wait("it is sent", lambda: server.asked("POST", path) != [])
    target = f"allow {id} desktop.destroy team-01.desk-1 by person:Eve"
    assert server.asked("POST", "/api/intents") == [{"kind": "operation.decide", "target": target}]
    (sent,) = server.asked("POST", path)
    assert (sent["answer"], sent["intent"]["intent"]["target"]) == ("allow", target)
    browser.sees_no("Refuse it")


def test_answer_that_fails_says_why(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.decides = {"state": "failed", "problem": {"reason": "you may not decide that", "remedy": "Ask another"}}
    browser.open(f"/operations/{held(estate)}")
    browser.click("Allow it")
    browser.click("Allow it, signed by my passkey")
    browser.sees("you may not decide that")
    browser.sees("Refuse it")


def test_to_refuse_it_wants_a_reason(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    id = held(estate)
    browser.open(f"/operations/{id}")
    browser.click("Refuse it")
    button = browser.find("dialog .danger")
    assert not button.is_enabled()
    browser.type("dialog input", "it is still used")
    button.click()
    browser.wait("it is sent", lambda: server.asked("POST", f"/api/operations/{id}/decide") != [])
    (sent,) = server.asked("POST", f"/api/operations/{id}/decide")
    assert (sent["answer"], sent["reason"]) == ("refuse", "it is still used")


def test_who_asked_is_told_that_somebody_else_answers(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(f"/operations/{held(estate, 'person:Ada', needed=1, answers=[])}")
    browser.sees("You asked for it: somebody else answers")
    assert [button.text for button in browser.all("main button")] == ["Cancel"]
