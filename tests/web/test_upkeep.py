"""A workspace as the host saw it last: refusals, isolation, snapshots and backups, and what is done with them."""

from typing import Any

import pytest

from tests.web import upkeep
from tests.web.browser import Browser
from tests.web.estate import Estate, ago
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

PAGE, LOOK, VERIFY = "/workspaces/team-01", "/api/workspaces/team-01/look", "/api/workspaces/team-01/verify"


@pytest.fixture(autouse=True)
def filled(estate: Estate) -> None:
    estate.fill(workspaces=2, desktops=2)


def newest(browser: Browser, estate: Estate, kind: str) -> str:
    """The operation of a kind that the page has asked for."""
    found: list[str] = browser.wait(
        f"{kind} is admitted",
        lambda: [id for id, each in estate.operations.items() if each["kind"] == kind and each["state"] == "queued"],
    )
    return found[-1]


def end(browser: Browser, estate: Estate, kind: str, result: Any = None) -> None:
    estate.advance(newest(browser, estate, kind), state="done", endedAt=ago(), result=result)


def test_nothing_is_asked_by_opening_the_page_and_a_look_shows_as_it_ends(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    browser.open(PAGE)
    browser.sees("Nobody has looked yet")
    browser.sees("It was not verified from here yet")
    assert server.asked("POST", LOOK) == server.asked("POST", VERIFY) == []
    browser.click("Look now")
    browser.sees("look: place 1 in the queue")
    end(browser, estate, "workspace.look", upkeep.look(backups=upkeep.part(problem=upkeep.SILENT)))
    for seen in (
        "crates.io",
        "is not on the list",
        "Allowed for a time: pypi.org",
        "before the update",
        "disk and memory",
        "4 % is free",
        "Well: gateway, desk-1",
    ):
        browser.sees(seen)
    # A part that could not be had says why, with the others there.
    browser.sees("does not run")
    browser.click("Verify the isolation")
    end(browser, estate, "workspace.verify", upkeep.isolation("tcp to a neighbour: answered, expected blocked"))
    browser.sees("does not hold")
    browser.sees("tcp to a neighbour: answered")


def test_desktops_of_a_workspace_are_counted_as_they_come_and_go(browser: Browser, estate: Estate) -> None:
    link = "a[href='/?workspace=team-01']"
    for path in ("/workspaces", PAGE):
        browser.open(path)
        browser.wait("both", lambda: browser.find(link).text == "2")
        estate.tell("desktop", {"id": "team-01.desk-2", "gone": True})
        browser.wait("one is gone", lambda: browser.find(link).text == "1")
    assert "seen" not in browser.find("main dl").text
    estate.change_workspace("team-01", unseenSince=ago(minutes=3))
    browser.sees("not seen for 3 min")


def test_look_that_ended_while_no_event_was_heard_is_over(browser: Browser, estate: Estate) -> None:
    browser.open(PAGE)
    browser.click("Look now")
    browser.sees("look: place 1 in the queue")
    estate.operations[newest(browser, estate, "workspace.look")] |= {"state": "failed", "problem": upkeep.SILENT}
    estate.tell("reset", {})
    browser.sees("does not run")
    browser.sees_no("look: place 1 in the queue")


def test_what_was_seen_before_is_there_with_its_age_and_is_its_workspaces_alone(
    browser: Browser, estate: Estate
) -> None:
    upkeep.furnish(estate)
    browser.open(PAGE)
    browser.sees("as of 1 h ago")
    browser.sees("free some")
    browser.sees("verified 1 h ago in 41.2 s")
    browser.sees_no("does not hold")
    browser.open("/workspaces/team-02")
    browser.sees("Nobody has looked yet")


def closed(browser: Browser) -> list[str]:
    return [row.text for row in browser.all("[aria-label='Closed names'] tbody tr")]


def test_closed_names_are_shown_with_the_budget_or_the_person_that_closed_them(
    browser: Browser, estate: Estate
) -> None:
    upkeep.furnish(estate)
    browser.open(PAGE)
    browser.sees("Closed, whatever the list says")
    assert closed(browser) == [
        "*.models.example.org its budget 1 h ago",
        "api.example.org ada 3 h ago",
    ]
    browser.sees("What a person closed stays until ./inv egress.reopen team-01 api.example.org.")
    browser.sees("As of a look 1 h ago; what a budget closed since is among it.")


def test_what_a_budget_closes_or_reopens_after_a_look_shows_at_once_and_what_a_person_closed_stays(
    browser: Browser, estate: Estate
) -> None:
    upkeep.furnish(estate)
    browser.open(PAGE)
    browser.sees("Closed, whatever the list says")
    closing = estate.operation("egress.close", "team-01", actor="watch")
    names = {"closed": ["*.models.example.org", "new.example.org"], "reopened": []}
    estate.advance(closing["id"], state="done", endedAt=ago(), result=names)
    browser.sees("new.example.org")
    assert "*.models.example.org its budget 1 h ago" in closed(browser), "it was closed before"
    closing = estate.operation("egress.close", "team-01", actor="watch")
    estate.advance(closing["id"], state="done", endedAt=ago(), result={"closed": [], "reopened": names["closed"]})
    browser.sees_no("its budget")
    assert closed(browser) == ["api.example.org ada 3 h ago"]


def test_a_look_of_before_or_one_that_failed_says_of_no_name_that_it_is_open(browser: Browser, estate: Estate) -> None:
    browser.open(PAGE)
    browser.click("Look now")
    end(browser, estate, "workspace.look", upkeep.look(allowed=upkeep.part()))
    browser.sees("Well: gateway, desk-1")
    browser.sees_no("No name is closed")
    browser.click("Look now")
    end(browser, estate, "workspace.look", upkeep.look(allowed=upkeep.part(problem=upkeep.SILENT)))
    browser.sees("What is closed could not be read: gateway does not run. ./inv workspace.start")
    browser.click("Look now")
    end(browser, estate, "workspace.look", upkeep.look(allowed=upkeep.part(closed=[])))
    browser.sees("No name is closed.")


def test_name_that_was_refused_is_allowed_by_a_signature_that_says_for_how_long(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    upkeep.furnish(estate)
    browser.open(PAGE)
    browser.click("Allow crates.io")
    browser.sees("All desktops of team-01 may reach crates.io")
    browser.find("input[value='1h']").click()
    browser.click("Allow it, signed by my passkey")
    path = "/api/workspaces/team-01/allowed"
    browser.wait("it is sent", lambda: server.asked("POST", path) != [])
    assert server.asked("POST", "/api/intents") == [{"kind": "egress.allow", "target": "team-01 crates.io 1h"}]
    (sent,) = server.asked("POST", path)
    assert (sent["name"], sent["howLong"], sent["intent"]["intent"]["target"]) == (
        "crates.io", "1h", "team-01 crates.io 1h",
    )  # fmt: skip
    # What it changed shows in the next look, which is asked for as soon as it is done.
    assert server.asked("POST", LOOK) == []
    end(browser, estate, "egress.allow")
    end(browser, estate, "workspace.look", upkeep.look(refusals=upkeep.part()))
    browser.sees("Nothing was refused.")


def test_snapshot_and_backup_are_asked_for_and_a_refusal_stays_on_the_page(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    upkeep.furnish(estate)
    browser.open(PAGE)
    browser.click("Take a snapshot")
    assert browser.find("dialog button.primary").get_attribute("disabled")
    browser.type("dialog input", "before-lunch")
    browser.click("Take it")
    path = "/api/desktops/team-01.desk-1/snapshots"
    browser.wait("it is sent", lambda: server.asked("POST", path) == [{"name": "before-lunch"}])
    full = {"field": "storage", "value": "", "reason": "the host lacks 4 GiB", "remedy": "Delete a snapshot"}
    estate.advance(newest(browser, estate, "snapshot.create"), state="failed", endedAt=ago(), problem=full)
    browser.sees("the host lacks 4 GiB")
    assert server.asked("POST", LOOK) == []
    browser.click("Back up")
    browser.choose("dialog select", "team-01.desk-2")
    browser.click("Back it up")
    browser.wait("it is sent", lambda: server.asked("POST", "/api/desktops/team-01.desk-2/backups") != [])


def test_desktop_is_put_back_by_a_signature_and_what_is_lost_is_said_before(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    upkeep.furnish(estate)
    browser.open(PAGE)
    browser.click("Put back desk-1 to before")
    browser.sees("What changed since is lost")
    path = "/api/desktops/team-01.desk-1/snapshots/before/restore"
    assert server.asked("POST", path) == []
    browser.click("Put it back, signed by my passkey")
    browser.wait("it is sent", lambda: server.asked("POST", path) != [])
    assert server.asked("POST", "/api/intents") == [{"kind": "snapshot.restore", "target": "team-01.desk-1 before"}]


def test_who_may_only_see_is_offered_nothing(browser: Browser, estate: Estate) -> None:
    estate.role = "viewer"
    upkeep.furnish(estate)
    browser.open(PAGE)
    browser.sees("before the update")
    for words in ("Look now", "Verify the isolation", "Take a snapshot", "Put back", "Allow"):
        assert words not in [button.text for button in browser.all("main section button")], words
