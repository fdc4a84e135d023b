"""What holds on every page: accessibility in both themes, the width of a phone, the focus."""

from typing import Any

import pytest

from tests.web import upkeep
from tests.web.browser import Browser
from tests.web.estate import Estate, ago, measured, moment, reading, tool
from tests.web.stand_in import StandIn
from tests.web.test_fleet import ROWS
from tests.web.test_founding import asks_to_destroy

pytestmark = pytest.mark.sampled

PAGES = {
    "/": "desk-1",
    "/?q=nothing": "No desktop is like that",
    "/new": "Create the desktop",
    "/new-workspace": "the host takes one that is free",
    "/desktops/team-01/desk-1": "The report is in ~/report.pdf",
    "/desktops/team-02/desk-3": "The agent stands still",
    "/conversations": "Report of the week",
    "/conversations/talk": "The report is in ~/report.pdf",
    "/approvals": "api.stripe.com:443",
    "/operations": "the host has too little",
    "/operations/OPERATION": "The machine is defined",
    "/operations/op-waits": "Allow it",
    "/workspaces": "team-02",
    "/workspaces/team-01": "before the update",
    "/alerts": "./inv desktop.health",
    "/usage": "Nobody has measured them",
    "/audit": "team-01.desk-240",
    "/settings": "desktops:write",
    "/nowhere": "Nothing is at this address",
    "/sign-in": "Sign in with Example",
    "/sign-in/answer": "this page is opened by the provider",
    "/sign-in/answer?state=open&code=once": "./inv control.person ada",
    "/enrol#once": "Enrol your passkey",
}
# Of each dialog the page that opens it, and what is clicked for that.
DIALOGS = (
    ("/", f"{ROWS} input", "Restart"),
    ("/desktops/team-02/desk-3", "Pause"),
    ("/approvals", "Allow once"),
    ("/approvals", "Refuse"),
    ("/operations/op-waits", "Allow it"),
    ("/operations/op-waits", "Refuse it"),
    ("/workspaces/team-01", "Take a snapshot"),
    ("/workspaces/team-01", "Put back desk-1 to before"),
    ("/settings", "Revoke ci"),
    ("/settings", "Change what Cas may"),
    ("/settings", "Remove… Phone"),
)
AXE = """
const done = arguments[arguments.length - 1];
const faults = (found) => found.violations.map((rule) => [rule.id, ...rule.nodes.map((node) => node.html)]);
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(faults(found)));
"""
# Of the page as well as of what scrolls in it: dialogs stand in the middle of the page.
WIDTH = "return Math.max(document.querySelector('main').scrollWidth, document.documentElement.scrollWidth)"
DARK = "document.documentElement.dataset.theme = 'dark'"


def furnish(estate: Estate) -> str:
    """An estate that has something for each page; the operation whose log can be read."""
    estate.fill(workspaces=2, desktops=30)
    estate.provider = "Example"
    failed = estate.operation("desktop.start", "team-02", "team-02.desk-7", createdAt=ago(hours=2))
    problem = {
        "field": "memory",
        "value": "2 GiB",
        "reason": "the host has too little",
        "remedy": "Stop another desktop",
    }
    estate.advance(failed["id"], state="failed", endedAt=ago(hours=1), problem=problem)
    running = estate.operation("desktop.restart", "team-01", "team-01.desk-1", startedAt=ago())
    for line in ("The machine is defined", "It boots", "Its routes answer"):
        estate.log(running["id"], line)
    estate.operation("workspace.up", "team-01", position=2, why=f"operation {running['id']} moves team-01 now")
    waits = {"strength": "worker", "asker": "person:Eve", "asked": "team-02.desk-9", "needed": 2}
    waits |= {"answers": [{"actor": "person:Bob", "answer": "allow", "at": ago()}], "until": ago(hours=-20)}
    why = "2 others have to allow it beside person:Eve: 1 did"
    held = {"id": "op-waits", "state": "waiting", "position": None, "why": why, "consent": waits, "actor": "person:Eve"}
    estate.operation("desktop.destroy", "team-02", "team-02.desk-9", **held)
    estate.conversations["talk"] = {
        "id": "talk",
        "desktopId": "team-01.desk-1",
        "title": "Report of the week",
        "createdAt": ago(hours=1),
        "lastAt": ago(minutes=3),
        "messages": 2,
    }
    estate.message("talk", "person", "Write the report of the week from ~/tickets, as a PDF.", at=ago(minutes=4))
    answer = "I have read 48 tickets: 12 were closed, 3 are late.\n\nThe report is in ~/report.pdf."
    cards = [
        tool("exec", arguments='{"command": "ls ~/tickets"}', output="48 files\n" + "x" * 300, outputCut=True),
        tool("browser-with-a-name-that-" + "goes-on-" * 7, state="failed", output="no such page"),
        tool("write", state="running", endedAt=None, arguments='{"path": "~/report.pdf"}'),
    ]
    more = {"tools": cards, "moreTools": 7, "claimed": {"input": 1200, "output": 340, "cached": 900}}
    estate.message("talk", "agent", answer, state="streaming", at=ago(minutes=3), **more)
    upkeep.furnish(estate)
    estate.measured.append(measured("team-01.desk-1", "api.anthropic.com", 41_000_000, 9_300_000, 212))
    estate.measured.append(
        measured("team-02.desk-3", "a-name-that-" + "goes-on-" * 7 + ".example.org", 900, 71_303_168)
    )
    estate.moments["team-01.desk-1"] = [
        moment("session", "drives", actor="person:Ada", detail="took over", at=ago(minutes=9)),
        moment(
            "refusal",
            "refused",
            detail="a-name-that-" + "goes-on-" * 7 + ".example.org:443: is not in the list",
            times=12,
        ),
        moment("alert", "desktop.unwell", detail="its disk has 3 % left", state="open", at=ago(minutes=7)),
    ]
    estate.moments_read_at = ago(minutes=20)
    estate.readings += [reading("team-01", ago(minutes=20)), reading("team-02", None, upkeep.SILENT)]
    estate.approval("team-01.desk-1", "api.stripe.com")
    estate.change("team-02.desk-3", frozenAt=ago(minutes=3))
    refused = {"state": "refused", "answer": "refuse", "decidedBy": "person:Ada", "reason": "not this shop", "held": 0}
    estate.approval("team-02.desk-3", "shop.example.com", **refused)
    return str(running["id"])


def visit(browser: Browser, path: str, operation: str) -> None:
    """Open a page, and wait for what it shows when it is whole."""
    browser.open(path.replace("OPERATION", operation))
    browser.sees(PAGES[path])
    browser.script("for (const card of document.querySelectorAll('details.tool')) card.open = true")


def test_no_fault_of_accessibility_is_found_in_either_theme(browser: Browser, estate: Estate, axe: str) -> None:
    operation = furnish(estate)
    browser.driver.execute_script("localStorage.setItem('theme', 'light')")
    found: dict[str, Any] = {}
    for path in PAGES:
        visit(browser, path, operation)
        browser.script(axe)
        faults = browser.driver.execute_async_script(AXE)
        browser.script(DARK)
        if faults := faults + browser.driver.execute_async_script(AXE):
            found[path] = faults
    browser.driver.execute_script("localStorage.removeItem('theme')")
    assert found == {}


def test_a_fault_of_accessibility_would_be_found(browser: Browser, estate: Estate, axe: str) -> None:
    visit(browser, "/enrol#once", "")
    browser.script("document.querySelector('main').append(document.createElement('button'))")
    browser.script(axe)
    assert [fault[0] for fault in browser.driver.execute_async_script(AXE)] == ["button-name"]


def test_a_colour_that_is_hard_to_read_in_the_dark_theme_alone_would_be_found(
    browser: Browser, estate: Estate, axe: str
) -> None:
    visit(browser, "/enrol#once", "")
    browser.script("document.documentElement.dataset.theme = 'light'")
    browser.script("document.querySelector('h1').style.color = '#333'")
    browser.script(axe)
    assert browser.driver.execute_async_script(AXE) == []
    browser.script(DARK)
    assert [fault[0] for fault in browser.driver.execute_async_script(AXE)] == ["color-contrast"]


def test_dialogs_have_no_fault_of_accessibility(browser: Browser, estate: Estate, axe: str) -> None:
    operation = furnish(estate)
    visit(browser, "/desktops/team-01/desk-1", operation)
    browser.click("Destroy")
    browser.sees("There is no way back")
    browser.script(axe)
    assert browser.driver.execute_async_script(AXE) == []
    visit(browser, "/workspaces/team-01", operation)
    asks_to_destroy(browser, estate, tasks=["s1"])
    browser.script(axe)
    faults = browser.driver.execute_async_script(AXE)
    browser.script(DARK)
    assert faults + browser.driver.execute_async_script(AXE) == []


def test_each_dialog_that_a_page_opens_has_no_fault_of_accessibility_in_either_theme(
    browser: Browser, estate: Estate, axe: str
) -> None:
    operation = furnish(estate)
    found: dict[tuple[str, ...], Any] = {}
    for path, *clicks in DIALOGS:
        visit(browser, path, operation)
        for words in clicks:
            if words.endswith(" input"):
                browser.find(words).click()
            else:
                browser.click(words)
        browser.find("dialog[open]")
        browser.script(axe)
        for theme in ("light", "dark"):
            browser.script("document.documentElement.dataset.theme = arguments[0]", theme)
            if faults := browser.driver.execute_async_script(AXE):
                found[path, *clicks, theme] = faults
    assert found == {}


def test_a_full_disk_is_said_on_every_page_until_something_is_kept_again(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    operation = furnish(estate)
    visit(browser, "/workspaces/team-01", operation)
    said = "The database has no room left on its disk: nothing new is kept. Make room on Mission Control's machine"
    server.full = True
    browser.click("Look now")
    browser.sees(said)
    # Not by another document: what a page knows goes with it.
    browser.click("Workspaces")
    browser.sees("team-02")
    browser.sees(said)
    server.full = False
    # There is room, and something was written down: the page hears of it unasked.
    estate.change("team-02.desk-3", state="stopped")
    browser.sees_no(said)


def test_pages_fit_a_phone(browser: Browser, estate: Estate) -> None:
    operation = furnish(estate)
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        wide = {}
        for path in PAGES:
            visit(browser, path, operation)
            wide[path] = browser.script(WIDTH)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert {path: width for path, width in wide.items() if width > 390} == {}


def test_a_new_page_has_the_focus_at_its_heading_and_a_title(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/")
    browser.click("Workspaces")
    browser.wait("the heading", lambda: browser.script("return document.activeElement.textContent") == "Workspaces")
    assert browser.driver.title == "Workspaces · Mission Control"


def test_the_theme_is_chosen_and_kept(browser: Browser, server: StandIn) -> None:
    browser.open("/settings")
    browser.click("Colours")
    browser.open("/settings")
    assert browser.script("return getComputedStyle(document.body).colorScheme") == "light"
    browser.click("Colours")
    assert browser.script("return getComputedStyle(document.body).colorScheme") == "dark"
    browser.click("Colours")
    assert browser.script("return localStorage.getItem('theme')") == "system"
