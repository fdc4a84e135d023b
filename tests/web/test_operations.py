"""Operations: why they wait, what they say, how they are ended."""

from tests.web.browser import Browser
from tests.web.estate import Estate, ago
from tests.web.stand_in import StandIn


def test_the_queue_says_the_place_and_why_something_waits(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.operation("desktop.start", "team-01", "team-01.desk-1", position=3, why="the site is out of memory")
    browser.open("/operations")
    browser.sees("place 3 in the queue: the site is out of memory")
    other = estate.operation("workspace.up", "team-01", why="team-01 is busy")
    browser.sees("team-01 is busy")
    estate.advance(other["id"], state="failed", problem={"reason": "the host went away", "remedy": "Start it"})
    browser.sees("the host went away")


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
