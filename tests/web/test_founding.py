"""An admin makes a workspace, and destroys one, without a shell; what is lost is shown before it is signed."""

from typing import Any

import pytest

from tests.web.browser import Browser
from tests.web.estate import Estate, ago, desktop
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

WORKSPACES, END = "/api/workspaces", "/api/workspaces/team-01/destroy"
LOST: dict[str, Any] = {
    "desktops": ["desk-2", "desk-1"],
    "tasks": [],
    "notice": ["desk-1, desk-2: backed up to /srv/backups and verified before; snapshots are lost"],
    "stays": ["desk-1: backup 20261129 stays"],
    "goes_too": ["desk-2: a trial"],
    "snapshots": {"desk-1": ["before the update"]},
}


def newest(browser: Browser, estate: Estate, kind: str) -> str:
    found: list[str] = browser.wait(
        f"{kind} is admitted", lambda: [id for id, each in estate.operations.items() if each["kind"] == kind]
    )
    return found[-1]


def asks_to_destroy(browser: Browser, estate: Estate, **lost: Any) -> None:
    """Open the dialog, and let the host say what would be lost."""
    browser.open("/workspaces/team-01")
    browser.click("Destroy…")
    browser.sees("ask what would be lost: place 1 in the queue")
    assert not browser.find("dialog .danger").is_enabled(), "what would be lost is not known yet"
    estate.advance(newest(browser, estate, "destroy.preview"), state="done", endedAt=ago(), result={**LOST, **lost})
    browser.sees("Type its name, team-01")


def test_where_nothing_is_an_admin_makes_the_first_workspace(browser: Browser, estate: Estate, server: StandIn) -> None:
    browser.open("/")
    browser.sees("No workspace yet")
    browser.click("Make the first workspace")
    browser.type("[name='name']", "research")
    browser.type("[name='desktop']", "reader")
    browser.click("Make it, signed by my passkey")
    operation = newest(browser, estate, "workspace.create")
    browser.wait("its operation is shown", lambda: browser.path() == f"/operations/{operation}")
    (sent,) = server.asked("POST", WORKSPACES)
    target = "research on site local, network chosen by the host, egress open: reader (free, desktop)"
    assert sent["intent"]["intent"]["target"] == target
    assert {name: value for name, value in sent.items() if name != "intent"} == {
        "name": "research",
        "site": "local",
        "network": None,
        "egress": "open",
        "desktops": [{"name": "reader", "tier": "free", "image": None}],
    }


def test_all_of_a_workspace_is_chosen_and_signed(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=2, desktops=1)
    estate.workspaces["team-02"]["site"] = "cluster"
    browser.open("/workspaces")
    browser.click("New workspace")
    browser.type("[name='name']", "team-01")
    browser.type("[name='desktop']", "reader")
    browser.choose("[name='site']", "cluster")
    browser.find("input[value='pro']").click()
    browser.type("[name='image']", "agent")
    browser.choose("[name='egress']", "locked")
    browser.type("[name='network']", "10.80.9.0/24")
    browser.sees("The tier pro has no price")
    browser.click("Make it, signed by my passkey")
    browser.sees("is the name of a workspace")
    (sent,) = server.asked("POST", WORKSPACES)
    target = "team-01 on site cluster, network 10.80.9.0/24, egress locked: reader (pro, agent)"
    assert sent["intent"]["intent"]["target"] == target
    # What was written is there, to be mended.
    browser.type("[name='name']", "team-01-b")
    browser.click("Make it, signed by my passkey")
    newest(browser, estate, "workspace.create")
    assert server.asked("POST", WORKSPACES)[1]["name"] == "team-01-b"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_is_no_admin_is_offered_neither(browser: Browser, estate: Estate, role: str) -> None:
    estate.role = role
    browser.open("/")
    browser.sees("An admin makes one here.")
    browser.sees_no("Make the first workspace")
    estate.fill(workspaces=1, desktops=1)
    browser.open("/workspaces")
    browser.sees("team-01")
    browser.sees_no("New workspace")
    browser.open("/workspaces/team-01")
    browser.sees("As the host sees it")
    browser.sees_no("Destroy")
    browser.open("/new-workspace")
    browser.sees("Only an admin makes workspaces")


def test_one_that_is_not_brought_up_says_what_to_do(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/workspaces/team-01")
    browser.sees("As the host sees it")
    browser.sees_no("not brought up")
    estate.change_workspace("team-01", state="absent")
    browser.sees("It is declared, and not brought up: Up makes its machines.")


def test_what_is_lost_is_shown_and_signed_by_the_names_that_were_seen(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=2)
    asks_to_destroy(browser, estate, tasks=["s1"])
    for seen in (
        "logins on them: desk-2, desk-1.",
        "Somebody has these for a task: s1.",
        "backed up to /srv/backups and verified before",
        "Snapshots that are lost: desk-1: before the update",
        "Goes too: desk-2: a trial",
        "desk-1: backup 20261129 stays",
    ):
        browser.sees(seen)
    assert not browser.find("dialog .danger").is_enabled(), "its name was not typed"
    browser.type("dialog input", "team-01")
    browser.find("dialog .danger").click()
    operation = newest(browser, estate, "workspace.destroy")
    browser.wait("its operation is shown", lambda: browser.path() == f"/operations/{operation}")
    (sent,) = server.asked("POST", END)
    assert sent["desktops"] == ["desk-2", "desk-1"]
    assert sent["intent"]["intent"]["target"] == "team-01 with desk-1 desk-2"


def test_one_that_is_added_while_the_dialog_is_open_is_not_destroyed(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=2)
    asks_to_destroy(browser, estate)
    estate.desktops["team-01.desk-3"] = desktop("team-01", "desk-3")
    browser.type("dialog input", "team-01")
    browser.find("dialog .danger").click()
    browser.sees("are not all that it has: desk-3")
    assert not [each for each in estate.operations.values() if each["kind"] == "workspace.destroy"]


def test_a_workspace_that_cannot_be_backed_up_cannot_be_signed_away(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=2)
    browser.open("/workspaces/team-01")
    browser.click("Destroy…")
    failed = {"field": "last backup", "value": "team-01/desk-1", "reason": "it is paused", "remedy": "let it go on"}
    estate.advance(newest(browser, estate, "destroy.preview"), state="failed", endedAt=ago(), problem=failed)
    browser.sees("it is paused")
    assert not browser.find("dialog .danger").is_enabled()
