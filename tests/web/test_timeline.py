"""The timeline of a desktop's page: what all that is kept says of it, and what is told of meanwhile."""

import pytest

from tests.web.browser import Browser
from tests.web.estate import Estate, ago, moment, tool
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

DESK = "team-01.desk-1"
PAGE = "/desktops/team-01/desk-1"
ROWS = "ol[aria-label='What happened'] li"


def words(browser: Browser) -> list[str]:
    """What stands in the rows' second place."""
    found: list[str] = browser.script(
        f'return [...document.querySelectorAll("{ROWS}")].filter((row) => row.querySelector(".when"))'
        ".map((row) => row.children[1].textContent)"
    )
    return found


def furnish(estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=2)
    estate.moments[DESK] = [
        moment("session", "drives", actor="person:Ada", detail="took over", at=ago(minutes=9)),
        moment("refusal", "refused", detail="pypi.org:443: is not in the list", times=12, at=ago(minutes=8)),
        moment("alert", "desktop.unwell", detail="3 things", state="open", at=ago(minutes=7)),
    ]
    estate.moments_read_at = ago(minutes=20)
    estate.operation("desktop.start", "team-01", DESK, state="done", createdAt=ago(minutes=6), endedAt=ago(minutes=5))
    estate.operation("desktop.start", "team-01", "team-01.desk-2", state="done", createdAt=ago(minutes=6))


def test_all_kinds_are_on_one_line_with_ways_to_them_and_as_of_when(browser: Browser, estate: Estate) -> None:
    furnish(estate)
    browser.open(PAGE)
    expected = ["start", "desktop.unwell", "refused, 12 times", "Ada: drives"]
    browser.wait("the moments", lambda: words(browser) == expected)
    browser.sees("pypi.org:443: is not in the list")
    browser.sees("is known as of 20 min ago")
    links = [link.get_attribute("href").removeprefix(browser.url) for link in browser.all(f"{ROWS} a")]
    assert links == [f"/operations/{next(iter(estate.operations))}", "/alerts"]


def test_what_is_told_of_meanwhile_stands_there_once_and_as_it_is_now(browser: Browser, estate: Estate) -> None:
    furnish(estate)
    estate.conversations["talk"] = {
        "id": "talk", "desktopId": DESK, "title": "x", "createdAt": ago(hours=1), "lastAt": ago(), "messages": 0,
    }  # fmt: skip
    browser.open(PAGE)
    browser.wait("the moments", lambda: len(words(browser)) == 4)
    stopped = estate.operation("desktop.stop", "team-01", DESK, createdAt=ago(seconds=30))
    browser.wait("the new one", lambda: words(browser)[0] == "stop")
    estate.advance(stopped["id"], state="failed", endedAt=ago(), problem={"reason": "it went wrong"})
    browser.sees("it went wrong")
    card = tool("browser", arguments="open it", startedAt=ago(seconds=10))
    estate.message("talk", "agent", "I look at it", tools=[card], at=ago(seconds=20))
    browser.wait("the tool", lambda: words(browser) == ["browser", "agent", "stop", *words(browser)[3:]])
    assert len(words(browser)) == 7
    assert estate.approval(DESK, "api.stripe.com")["state"] == "waiting"
    browser.wait("what is asked for", lambda: "asks for api.stripe.com:443" in words(browser))


def test_a_person_chooses_kinds_and_how_far_back(browser: Browser, estate: Estate, server: StandIn) -> None:
    furnish(estate)
    browser.open(PAGE)
    browser.wait("the moments", lambda: len(words(browser)) == 4)
    browser.choose("select[aria-label='Of the timeline']", "who was there")
    browser.wait("the sessions", lambda: words(browser) == ["Ada: drives"])
    browser.choose("select[aria-label='Of the timeline']", "what was said")
    browser.sees("Nothing of that is known")
    browser.choose("select[aria-label='Of the timeline']", "everything")
    before = "const box = document.querySelector('[aria-label=\"Only before\"]'); box.value = arguments[0];"
    browser.script(f"{before} box.dispatchEvent(new Event('input', {{bubbles: true}}))", "2020-01-01T00:00")
    browser.sees("Nothing of that is known")
    browser.script(f"{before} box.dispatchEvent(new Event('input', {{bubbles: true}}))", "")
    browser.wait("the moments again", lambda: len(words(browser)) == 4)


def test_older_ones_come_when_somebody_wants_them(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.moments[DESK] = [
        moment("refusal", "refused", id=f"refusal:{number}", at=ago(minutes=number + 1)) for number in range(130)
    ]
    browser.open(PAGE)
    browser.wait("the first part", lambda: len(words(browser)) == 100)
    browser.click("Show older ones")
    browser.wait("the rest", lambda: len(words(browser)) == 130)
    browser.sees_no("Show older ones")


def test_before_the_first_look_the_way_to_it_is_named(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Nothing yet. What is done to")
    browser.sees("is known after the first look at the workspace")


def test_what_a_look_brings_stands_there_without_a_reload(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("is known after the first look at the workspace")
    look = estate.operation("workspace.look", "team-01")
    estate.moments[DESK] = [moment("session", "drives", actor="person:Ada", at=ago(minutes=9))]
    estate.moments_read_at = ago()
    estate.advance(look["id"], state="done", endedAt=ago())
    browser.wait("what it brought", lambda: words(browser) == ["Ada: drives"])


def test_what_is_done_at_the_host_stands_there_with_who_did_it_as_soon_as_the_desktop_turns(
    browser: Browser, estate: Estate
) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Nothing yet. What is done to")
    task = moment("task", "desktop.stop", actor="host:ada", detail="--force", state="done", at=ago(seconds=5))
    estate.moments[DESK] = [task]
    estate.change(DESK, state="paused")
    browser.wait("the task", lambda: words(browser) == ["./inv desktop.stop"])
    browser.sees("--force, by ada at the host")
    browser.choose("select[aria-label='Of the timeline']", "what was said")
    browser.sees("Nothing of that is known")
    browser.choose("select[aria-label='Of the timeline']", "what was done to it")
    browser.wait("the task again", lambda: words(browser) == ["./inv desktop.stop"])


def alerts(browser: Browser) -> list[str]:
    """The state and the rule of each alert that is shown."""
    found: list[str] = browser.script(
        f'return [...document.querySelectorAll("{ROWS}")].filter((row) => row.querySelector("a[href=\'/alerts\']"))'
        ".map((row) => `${row.lastElementChild.textContent} ${row.children[1].textContent}`)"
    )
    return found


def test_alert_that_opens_or_ends_stands_there_as_it_is_now_and_those_of_others_do_not(
    browser: Browser, estate: Estate
) -> None:
    estate.fill(workspaces=1, desktops=2)
    browser.open(PAGE)
    browser.sees("Nothing yet. What is done to")
    for other in ("team-01.desk-2", f"{DESK}0", "gateway team-01"):
        estate.alert(other, text="somebody else is not well")
    opened = estate.alert(DESK)
    browser.wait("that it is open", lambda: alerts(browser) == ["open desktop.unwell"])
    browser.sees("its disk has 3 % left")
    estate.alert(f"desktop.stop {DESK}", rule="desktop.failed", openedAt=ago(seconds=-5))
    browser.wait("one of its operations", lambda: alerts(browser) == ["open desktop.failed", "open desktop.unwell"])
    estate.alert(DESK, id=opened["id"], closedAt=ago(), acknowledgedBy="person:Ada")
    browser.wait("that it is over", lambda: alerts(browser) == ["open desktop.failed", "closed desktop.unwell"])
    browser.sees("its disk has 3 % left, by Ada")
    browser.sees_no("somebody else")
    browser.choose("select[aria-label='Of the timeline']", "who was there")
    browser.wait("no alert", lambda: alerts(browser) == [])
    browser.choose("select[aria-label='Of the timeline']", "alerts")
    browser.wait("both", lambda: len(alerts(browser)) == 2)


def test_alert_that_ended_while_nobody_told_of_it_is_not_open_still(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Nothing yet. What is done to")
    opened = estate.alert(DESK)
    browser.wait("that it is open", lambda: alerts(browser) == ["open desktop.unwell"])
    estate.moments[DESK] = [
        moment("alert", "desktop.unwell", id=f"alert:{opened['id']}", state="closed", at=opened["openedAt"])
    ]
    estate.tell("reset", {})
    browser.wait("that it is over", lambda: alerts(browser) == ["closed desktop.unwell"])
