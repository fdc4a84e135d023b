"""The fleet's page: ten thousand rows that are alive."""

import pytest
from selenium.webdriver.common.by import By

from tests.web.browser import Browser, Keys
from tests.web.estate import Estate, ago
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

ROWS = "[role=row][id]"
NO_LONG_TIMERS = """
const timer = window.setTimeout;
window.setTimeout = (action, pause, ...rest) => (pause < 1000 ? timer(action, pause, ...rest) : 0);
"""


def names(browser: Browser) -> list[str]:
    found: list[str] = browser.script(f"return [...document.querySelectorAll('{ROWS}')].map((row) => row.id.slice(4))")
    return found


def test_ten_thousand_rows_are_shown_scrolled_and_kept_alive(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=20, desktops=500)
    browser.open("/")
    browser.find("[role=grid][aria-rowcount='10001']")
    assert len(names(browser)) < 60
    assert names(browser)[0] == "team-01.desk-1"

    estate.change("team-01.desk-1", state="io-error", detail="the disk of the host is full")
    browser.sees("the disk of the host is full")

    browser.script("document.querySelector('.view').scrollTop = 1e9")
    browser.wait("the last row", lambda: "team-20.desk-500" in names(browser))
    assert len(names(browser)) < 60
    estate.tell("desktop", {"id": "team-20.desk-500", "gone": True})
    browser.sees("9,999 desktops")
    browser.wait("the row is gone", lambda: "team-20.desk-500" not in names(browser))


def test_the_filter_is_in_the_address_and_read_from_it(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=3, desktops=20)
    browser.open("/?workspace=team-02&state=stopped")
    browser.wait("only those", lambda: names(browser) and all(name.startswith("team-02.") for name in names(browser)))
    browser.press("/", "desk-1")
    browser.wait("the address", lambda: browser.path() == "/?workspace=team-02&state=stopped&q=desk-1")
    stopped = [
        desktop["id"]
        for desktop in estate.desktops.values()
        if desktop["state"] == "stopped" and "team-02.desk-1" in desktop["id"]
    ]
    browser.wait("both filters", lambda: sorted(names(browser)) == sorted(stopped))
    estate.change(stopped[0], state="ready")
    browser.wait("what is no longer so leaves", lambda: stopped[0] not in names(browser))


def test_desktops_are_chosen_and_opened_by_the_keyboard(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=5)
    browser.open("/")
    browser.sees("5 desktops")
    browser.press("j", "j", "x", "k", "x")
    browser.sees("2 chosen")
    browser.press(Keys.ESCAPE)
    browser.sees_no("2 chosen")
    browser.press("j", Keys.ENTER)
    browser.wait("its page", lambda: browser.path() == "/desktops/team-01/desk-2")


def test_an_action_on_many_shows_them_before_and_sends_their_count(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=30)
    browser.open("/?state=ready")
    browser.find(f"{ROWS} input").click()
    browser.sees("1 chosen")
    browser.click("Choose all")
    browser.click("Stop")
    ready = sum(desktop["state"] == "ready" for desktop in estate.desktops.values())
    browser.sees(f"Stop {ready} desktops?")
    browser.sees("Programs that run on them end")
    ids = [desktop["id"] for desktop in estate.desktops.values() if desktop["state"] == "ready"]
    tried = {"action": "stop", "selector": {"ids": ids}, "expectedCount": ready, "dryRun": True}
    (sent,) = server.asked("POST", "/api/fleet/actions")
    assert {**sent, "selector": {"ids": sorted(sent["selector"]["ids"])}} == {**tried, "selector": {"ids": sorted(ids)}}
    browser.find("dialog .primary").click()
    browser.sees_no("chosen")
    assert server.asked("POST", "/api/fleet/actions")[1] == {**tried, "dryRun": False}


def test_desktop_for_a_task_is_left_out_of_what_is_done_with_many(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=3)
    estate.change("team-01.desk-2", lifetime="task", until=ago(hours=-2, minutes=-5), machine="m-1")
    browser.open("/")
    browser.sees("for a task, goes in 2 h")
    boxes = browser.all(f"{ROWS} input")
    assert [box.is_enabled() for box in boxes] == [True, False, True]
    boxes[0].click()
    browser.click("Choose all 2 shown")
    browser.sees("2 chosen")
    browser.click("Stop")
    browser.sees("Stop 2 desktops?")
    (tried,) = server.asked("POST", "/api/fleet/actions")
    assert tried["selector"] == {"ids": ["team-01.desk-1", "team-01.desk-3"]}


def test_agents_of_many_are_stopped_and_the_list_says_so(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=3)
    browser.open("/?state=ready")
    browser.find(f"{ROWS} input").click()
    browser.click("Stop the agents at once")
    browser.sees("Stop the agents of 1 desktop?")
    browser.sees("Screens and terminals stay yours")
    browser.find("dialog .primary").click()
    browser.sees_no("chosen")
    asked = [body["action"] for body in server.asked("POST", "/api/fleet/actions")]
    assert asked == ["freeze", "freeze"]
    estate.change(next(iter(estate.desktops)), frozenAt=ago())
    browser.sees("its agent stands still")


def test_those_with_another_image_are_found_and_upgraded_by_one_signature(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=4)
    browser.open("/")
    browser.sees("4 desktops")
    assert "update" not in browser.text()
    new = "agent-fedcba9876543210"
    for name in ("desk-1", "desk-3"):
        estate.change(f"team-01.{name}", upgradeTo=new)
    browser.wait("how many", lambda: "update\n2" in browser.find("[role=search]").text)
    browser.find(f"{ROWS} input").click()
    browser.click("Choose all")
    browser.click("Upgrade")
    browser.sees("Upgrade 2 desktops?")
    browser.sees(f"team-01.desk-3 agent-0123456789abcdef to {new}")
    browser.sees("Left out: team-01.desk-2 runs agent-0123456789abcdef already, team-01.desk-4 runs")
    browser.find("dialog .primary").click()
    browser.sees_no("chosen")
    target = f"team-01.desk-1 team-01.desk-3 to {new}"
    assert server.asked("POST", "/api/intents") == [{"kind": "desktop.upgrade", "target": target}]
    sent = server.asked("POST", "/api/fleet/actions")[1]
    assert (sent["expectedCount"], sent["intent"]["intent"]["target"]) == (2, target)
    browser.click("update")
    browser.wait("only those", lambda: names(browser) == ["team-01.desk-1", "team-01.desk-3"])
    assert browser.path() == "/?upgrade=true"
    estate.change("team-01.desk-3", upgradeTo=None)
    browser.wait("what is upgraded leaves", lambda: names(browser) == ["team-01.desk-1"])


def test_action_is_done_with_those_that_were_shown(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=3)
    estate.desktops["team-01.desk-3"]["state"] = "stopped"
    browser.open("/?state=ready")
    browser.find(f"{ROWS} input").click()
    browser.click("Choose all")
    browser.click("Restart")
    browser.sees("Restart 2 desktops?")
    # As many are ready as before, but others.
    estate.desktops["team-01.desk-1"]["state"], estate.desktops["team-01.desk-3"]["state"] = "stopped", "ready"
    browser.find("dialog .primary").click()
    browser.sees_no("chosen")
    sent = server.asked("POST", "/api/fleet/actions")[1]
    assert sent["selector"] == {"ids": ["team-01.desk-1", "team-01.desk-2"]}


def test_an_action_is_not_done_when_the_fleet_is_another_meanwhile(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=3)
    browser.open("/?state=ready")
    browser.find(f"{ROWS} input").click()
    browser.click("Choose all")
    browser.sees("3 chosen")
    browser.click("Restart")
    browser.sees("Restart 3 desktops?")
    del estate.desktops["team-01.desk-1"]
    browser.find("dialog .primary").click()
    browser.sees("expectedCount 3: is not what there is: 2 desktops")
    browser.sees("look again, then repeat it")


def test_an_empty_fleet_names_the_next_step(browser: Browser, estate: Estate) -> None:
    browser.open("/")
    browser.sees("./inv demo --yes")
    estate.fill(workspaces=1, desktops=0)
    estate.tell("workspace", estate.workspaces["team-01"])
    browser.sees("Make the first one")


def test_a_list_that_could_not_be_loaded_is_loaded_when_the_stream_goes_on(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=2)
    browser.open("/")
    browser.wait("the list", lambda: names(browser) == ["team-01.desk-1", "team-01.desk-2"])
    server.away = True
    estate.tell("reset", {})
    browser.sees("answered with status 503")
    del estate.desktops["team-01.desk-1"]
    server.away = False
    # The browser's own stream goes on where it was cut: the page is not told to load anew.
    estate.hang_up()
    browser.wait("what there is now", lambda: names(browser) == ["team-01.desk-2"])
    browser.sees_no("answered with status 503")


@pytest.mark.parametrize("healed", ["by itself", "by a person"])
def test_a_cut_is_told_with_the_age_of_what_is_shown_and_healed(
    browser: Browser, estate: Estate, server: StandIn, healed: str
) -> None:
    estate.fill(workspaces=1, desktops=2)
    browser.open("/")
    browser.sees("live")
    # Both lists are asked for before anything is refused: what is refused then is the stream.
    browser.wait("the lists", lambda: names(browser) and server.asked("GET", "/api/workspaces"))
    if healed == "by a person":
        # The page's own tries, a second apart and more, do not come: only the button is left.
        browser.script(NO_LONG_TIMERS)
    server.refused, server.away = 0, True
    estate.hang_up()
    browser.sees("Not connected to Mission Control. What you see is")
    # Refused once more, the browser's own stream gives up for good.
    browser.wait("a refused stream", lambda: server.refused)
    del estate.desktops["team-01.desk-1"]
    server.away = False
    if healed == "by a person":
        browser.click("Try now")
    browser.sees_no("Not connected")
    browser.wait("what happened meanwhile", lambda: names(browser) == ["team-01.desk-2"])
    assert browser.driver.find_element(By.CSS_SELECTOR, ".live").text == "live"


def test_stream_that_is_silent_too_long_is_told_as_lost_and_opened_anew(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/")
    browser.sees("42 min")
    browser.script("window.late = 0; const now = Date.now; Date.now = () => now() + late * 1000;")
    for _ in range(5):
        estate.tell("heartbeat", {})
        # What is asked after it is answered after it.
        browser.driver.execute_async_script("late += 20; fetch('/api/me').then(arguments[0])")
    browser.sees("43 min")
    assert browser.find(".live").text == "live", "heartbeats are a life"
    server.away = True
    browser.script("late += 50")
    browser.sees("Not connected to Mission Control. What you see is")
    assert "is 0 s old" not in browser.text()
    server.away = False
    browser.sees_no("Not connected")
    assert browser.find(".live").text == "live"


def test_a_hypervisor_that_is_gone_is_a_banner_on_every_page_until_it_answers(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=2, desktops=2)
    browser.open("/")
    browser.find("#row-team-01\\.desk-1")
    assert not browser.all("[aria-label='Hypervisor of local']")
    # Of one whose declaration is wrong it says nothing.
    estate.change_workspace("team-02", unseenSince=ago(minutes=9), problem={"reason": "is wrong"})
    estate.change_workspace("team-01", state="unknown", unseenSince=ago(minutes=3), unseenWhy="qemu is not there")
    estate.change("team-01.desk-1", state="unknown")
    browser.sees("The hypervisor of local does not answer, for 3 min: how the desktops of team-01 are is not known.")
    browser.sees("qemu is not there")
    row = browser.find("#row-team-01\\.desk-1")
    browser.wait("it is not known", lambda: "unknown" in row.text and "ready" not in row.text)
    browser.open("/settings")
    browser.sees("The hypervisor of local does not answer")
    estate.change_workspace("team-01", state="ready", unseenSince=None, unseenWhy="")
    browser.sees_no("The hypervisor of local")
    assert not browser.all("[aria-label='Hypervisor of local']")


def test_a_silent_gateway_is_said_at_once_where_its_desktops_are(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=2, desktops=2)
    browser.open("/workspaces")
    browser.sees("team-02")
    estate.change_workspace("team-02", silentSince=ago(seconds=20), silence="no route to 10.80.1.1")
    browser.sees("Its gateway is silent for 2")
    browser.sees("s: no route to 10.80.1.1")
    assert browser.text().count("is silent for") == 1
    for path in ("/workspaces/team-02", "/desktops/team-02/desk-1"):
        browser.open(path)
        browser.sees("no route to 10.80.1.1")
    estate.change_workspace("team-02", silentSince=None, silence="")
    browser.sees_no("is silent for")
