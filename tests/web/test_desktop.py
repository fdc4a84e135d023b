"""A desktop from its creation to its end, as a person goes through it."""

import threading

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from deskyard.control.opening import seal
from tests.web.browser import Browser, Keys
from tests.web.estate import Estate, ago, tool
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

DESK = "team-01.desk-1"
PAGE = "/desktops/team-01/desk-1"


def test_a_desktop_is_created_and_seen_to_become_ready(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=2, desktops=1)
    browser.open("/new?workspace=team-02")
    browser.type("input[maxlength='40']", "report")
    browser.find("input[value=pro]").click()
    browser.find("input[value=github]").click()
    browser.type("textarea", "Write the report")
    assert server.asked("POST", "/api/desktops") == [], "nothing starts by being opened"
    browser.click("Create the desktop")
    browser.wait("its page", lambda: browser.path() == "/desktops/team-02/report")
    asked = {
        "name": "report",
        "workspaceId": "team-02",
        "tier": "pro",
        "keys": ["github"],
        "firstTask": "Write the report",
    }
    (sent,) = server.asked("POST", "/api/desktops")
    assert {key: value for key, value in sent.items() if key != "intent"} == asked
    assert server.asked("POST", "/api/intents") == [{"kind": "desktop.create", "target": "team-02.report github"}]
    assert sent["intent"]["credential"], "the keys that it gets are signed"
    browser.sees("create: place 2 in the queue: team-01 is busy")
    operation = next(reversed(estate.operations))
    estate.log(operation, "The machine boots")
    browser.sees("create: The machine boots")
    estate.advance(operation, state="done", endedAt=ago())
    estate.change("team-02.report", state="ready")
    browser.sees("Open screen")


def test_a_name_that_is_taken_is_told_beside_the_form(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/new")
    browser.type("input[maxlength='40']", "taken")
    browser.click("Create the desktop")
    browser.sees("name taken: the workspace has a desktop of that name")
    browser.sees("Choose another name")
    assert browser.path() == "/new"


def test_the_screen_appears_when_somebody_opens_it(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Open screen")
    assert server.asked("POST", f"/api/desktops/{DESK}/session") == []
    browser.click("Only watch")
    link = browser.find("a[target='_blank']")
    assert link.get_attribute("href") == "https://team-01.deskyard.localhost:9444/#ticket"
    assert link.get_attribute("rel") == "noopener noreferrer"
    (sent,) = server.asked("POST", f"/api/desktops/{DESK}/session")
    signed = {"kind": "desktop.session", "target": f"{DESK} view for key {seal.fingerprint(sent['sealTo'])}"}
    assert (sent["mode"], server.asked("POST", "/api/intents")) == ("view", [signed])


def test_link_that_was_made_while_no_event_was_heard_is_got_all_the_same(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.opens = "queued"
    browser.open(PAGE)
    browser.click("Only watch")
    browser.sees("Asking the gateway for a link")
    (asked,) = browser.wait("it is asked for", lambda: list(estate.operations))
    estate.operations[asked] |= {"state": "done", "endedAt": ago()}
    estate.tell("reset", {})
    browser.find("a[target='_blank']")


def test_a_link_that_is_sealed_to_somebody_else_is_told_and_not_followed(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    point = ec.generate_private_key(seal.CURVE).public_key()
    estate.sealed_to = seal.written(point)
    browser.open(PAGE)
    browser.click("Open screen")
    browser.sees("the link is sealed to another page")
    assert browser.all("a[target='_blank']") == []


def test_a_browser_without_its_passkey_opens_nothing(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Open screen")
    server.passkeys.known, known = ["AAAA"], server.passkeys.known
    try:
        browser.click("Open screen")
        browser.sees("no passkey answered")
    finally:
        server.passkeys.known = known
    assert server.asked("POST", f"/api/desktops/{DESK}/session") == []


def test_an_answer_is_read_while_the_agent_writes_it(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Nothing was said yet")
    browser.find("textarea").send_keys("Count the tickets", Keys.ENTER)
    browser.sees("waits to be sent")
    conversation = next(iter(estate.conversations))
    answer = estate.message(conversation, "agent", "There", state="streaming")
    browser.sees("There")
    estate.write(answer["id"], text="There are 48 <b>tickets</b>")
    browser.sees("There are 48 <b>tickets</b>")
    browser.click("Stop")
    browser.wait("it was asked", lambda: server.asked("POST", f"/api/conversations/{conversation}/interrupt"))
    for message in list(estate.messages):
        estate.write(message, state="done")
    browser.sees_no("writing")
    browser.find("textarea").send_keys("And the open ones", Keys.ENTER)
    browser.sees("And the open ones")
    assert server.asked("POST", f"/api/desktops/{DESK}/chat")[1]["conversationId"] == conversation

    browser.open("/conversations?q=48")
    browser.click("Count the tickets")
    browser.sees("There are 48 <b>tickets</b>")
    for ending, form in (("md", "markdown"), ("json", "json")):
        link = browser.find(f"a[download='{conversation}.{ending}']")
        assert link.get_attribute("href").endswith(f"/api/conversations/{conversation}/export?format={form}")

    def all_of_the_workspace() -> None:
        for ending, form in (("md", "markdown"), ("json", "json")):
            link = browser.find(f"a[download='conversations-team-01.{ending}']")
            assert link.get_attribute("href").endswith(f"/api/workspaces/team-01/conversations/export?format={form}")

    browser.open("/conversations")
    browser.choose("main select", "team-01")
    all_of_the_workspace()
    browser.open("/workspaces/team-01")
    all_of_the_workspace()


def test_a_desktop_without_an_agent_says_what_it_can_do_instead_before_anything_is_said(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.desktops[DESK]["agent"] = "none"
    browser.open(PAGE)
    browser.sees(
        f"{DESK} has no agent: nobody answers here. Open screen gives you its screen and terminal in a tab of its"
    )
    # There is what it names, and neither of them stands on this page.
    assert browser.find("main .closed button.primary").text == "Open screen"
    assert browser.all("main iframe, main canvas") == []
    browser.sees("agent: {command: [...]}")
    assert "Nothing was said yet" not in browser.text()
    assert server.asked("POST", f"/api/desktops/{DESK}/chat") == [], "nothing had to be refused"
    # It follows the declaration.
    for agent, words in (
        ("openclaw", f"Write what the agent of {DESK} is to do."),
        ("acp", "It is a program of its owner's, started for each message."),
        (None, "An image without an agent refuses, and says so here."),
    ):
        estate.change(DESK, agent=agent)
        browser.sees(words)
        assert "has no agent" not in browser.text()
    assert "It is a program" not in browser.text()


def test_what_is_typed_while_a_message_is_sent_is_the_next(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    answer = server.held[f"/api/desktops/{DESK}/chat"] = threading.Event()
    browser.open(PAGE)
    browser.sees("Nothing was said yet")
    browser.find("textarea").send_keys("First", Keys.ENTER)
    browser.wait("it is sent", lambda: server.asked("POST", f"/api/desktops/{DESK}/chat"))
    browser.find("textarea").send_keys("second")
    answer.set()
    browser.sees("waits to be sent")
    assert browser.find("textarea").get_property("value") == "second"


def test_message_that_was_not_taken_stays_to_be_sent_again(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Nothing was said yet")
    server.full = True
    try:
        browser.find("textarea").send_keys("First", Keys.ENTER)
        browser.sees("has no room left on its disk")
    finally:
        server.full = False
    assert browser.find("textarea").get_property("value") == "First"


def test_conversation_that_is_begun_elsewhere_is_seen(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Nothing was said yet")
    at = ago()
    talk = {"id": "talk-0", "desktopId": DESK, "title": "From elsewhere", "createdAt": at, "lastAt": at, "messages": 1}
    estate.conversations["talk-0"] = talk
    estate.message("talk-0", "person", "From elsewhere, by a program")
    estate.operation("desktop.chat", "team-01", DESK, state="running")
    browser.sees("From elsewhere, by a program")


def test_a_tool_is_seen_while_it_runs_and_opened_by_the_keyboard(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.find("textarea").send_keys("Look", Keys.ENTER)
    browser.sees("waits to be sent")
    card = tool("exec", state="running", endedAt=None, arguments='{"command": "<b>ls</b>"}')
    message = estate.message(next(iter(estate.conversations)), "agent", "", state="streaming", tools=[card])
    browser.sees("running")
    assert not browser.find("details.tool").get_attribute("open"), "it takes no room before it is opened"
    browser.find("details.tool summary").send_keys(Keys.ENTER)
    browser.sees('{"command": "<b>ls</b>"}')
    ended = {**card, "state": "failed", "endedAt": ago(), "output": "no <i>such</i> file", "outputCut": True}
    claimed = {"input": 1200, "output": 34, "cached": 900}
    estate.write(message["id"], state="done", tools=[ended], moreTools=2, claimed=claimed)
    # What a reader opened stays open while the answer goes on.
    for words in ("no <i>such</i> file", "cut", "1 min", "2 more", "as the agent claims: 1200 in, 34 out, 900 cached"):
        browser.sees(words)
    assert browser.find("details.tool").get_attribute("open")


def test_a_desktop_is_stopped_and_started(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.click("Stop")
    browser.sees("Programs that run on it end")
    assert server.asked("POST", f"/api/desktops/{DESK}/stop") == [], (
        "nothing is stopped before it is said what that means"
    )
    browser.find("dialog .primary").click()
    browser.sees("stop: place 1 in the queue")
    assert server.asked("POST", f"/api/desktops/{DESK}/stop") == [{"force": False}]
    estate.advance(next(iter(estate.operations)), state="done", endedAt=ago())
    estate.change(DESK, state="stopped", wanted="off")
    browser.click("Start")
    browser.wait("it was asked for", lambda: server.asked("POST", f"/api/desktops/{DESK}/start") == [{}])
    browser.wait("it is told", lambda: f"{DESK} is stopped" in browser.script("return document.body.textContent"))


def test_a_desktop_is_paused_after_a_question_and_goes_on_without(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.click("Pause")
    browser.sees("It halts as it is, with all that runs on it")
    assert server.asked("POST", f"/api/desktops/{DESK}/pause") == []
    browser.find("dialog input[type=checkbox]").click()
    browser.find("dialog .primary").click()
    browser.sees("pause: place 1 in the queue")
    assert server.asked("POST", f"/api/desktops/{DESK}/pause") == [{"toDisk": True}]
    estate.advance(next(iter(estate.operations)), state="done", endedAt=ago())
    estate.change(DESK, state="paused", wanted="paused")
    browser.click("Resume")
    browser.sees("resume: place 1 in the queue")
    assert server.asked("POST", f"/api/desktops/{DESK}/resume") == [{}]


OLD, NEW = "agent-0123456789abcdef", "agent-fedcba9876543210"


def test_an_upgrade_says_what_is_kept_and_lost_before_it_is_signed(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Stop")
    assert "Upgrade" not in browser.text(), "there is nothing newer"
    estate.change(DESK, upgradeTo=NEW)
    browser.click("Upgrade…")
    browser.sees(f"From {OLD} to {NEW}")
    browser.sees("ask what an upgrade takes: place 1 in the queue")
    assert not browser.find("dialog .danger").is_enabled(), "what would be lost is not known yet"
    (asked,) = estate.operations
    found = {"before": OLD, "after": NEW, "packages": ["htop", "tmux"], "kept": ["/etc/app/main.conf"]}
    estate.advance(asked, state="done", endedAt=ago(), result=found)
    browser.sees("Kept: /home, keys and address, /etc/app/main.conf.")
    browser.sees("the host keeps that disk until the next upgrade. Packages of its owner: htop, tmux.")
    assert server.asked("POST", f"/api/desktops/{DESK}/upgrade") == []
    browser.find("dialog .danger").click()
    browser.sees("upgrade: place 1 in the queue")
    (sent,) = server.asked("POST", f"/api/desktops/{DESK}/upgrade")
    assert (sent["image"], sent["packages"], sent["intent"]["intent"]["target"]) == (NEW, True, f"{DESK} to {NEW}")
    assert server.asked("POST", "/api/intents") == [{"kind": "desktop.upgrade", "target": f"{DESK} to {NEW}"}]


def test_an_upgrade_that_would_lose_something_cannot_be_signed(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.change(DESK, upgradeTo=NEW)
    browser.open(PAGE)
    browser.click("Upgrade…")
    browser.sees("ask what an upgrade takes: place 1 in the queue")
    failed = {"field": "desktop", "value": DESK, "reason": "has snapshots", "remedy": "delete them"}
    estate.advance(next(iter(estate.operations)), state="failed", endedAt=ago(), problem=failed)
    browser.sees("has snapshots")
    assert not browser.find("dialog .danger").is_enabled()


def test_start_that_is_over_before_its_answer_is_read_is_over(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.change(DESK, state="stopped", wanted="off")
    answer = server.held[f"/api/desktops/{DESK}/start"] = threading.Event()
    browser.open(PAGE)
    browser.click("Start")
    browser.sees("start: place 1 in the queue")
    estate.advance(next(iter(estate.operations)), state="done", endedAt=ago())
    browser.sees_no("queued")
    answer.set()
    browser.wait("the answer was read", browser.find(".head button").is_enabled)
    browser.frame()
    assert "queued" not in browser.text(), "an answer is older than what was told since it was asked for"


def test_agent_is_stopped_at_once_and_let_go_on(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("you keep the screen")
    browser.click("Stop the agent at once")
    browser.wait("it is asked for at once", lambda: server.asked("POST", f"/api/desktops/{DESK}/freeze") == [{}])
    browser.sees("stop the agent: place 1 in the queue")
    assert not browser.find("[aria-label='The agent'] button").is_enabled(), "once is enough"
    assert browser.find(".head button").is_enabled(), "the machine is not moved by it"
    (operation,) = estate.operations
    estate.advance(operation, state="done", endedAt=ago())
    estate.change(DESK, frozenAt=ago(minutes=3))
    browser.sees("The agent stands still, for 3 min")
    browser.sees("It answers no message meanwhile")
    browser.click("Let it go on")
    browser.sees("let the agent go on: place 1 in the queue")
    assert server.asked("POST", f"/api/desktops/{DESK}/thaw") == [{}]
    failed = {"field": "agent", "value": DESK, "reason": "still stands still", "remedy": "Do it again"}
    estate.advance(list(estate.operations)[-1], state="failed", endedAt=ago(), problem=failed)
    browser.sees("still stands still")
    estate.change(DESK, frozenAt=None)
    browser.sees("Stop the agent at once")


def test_what_got_no_answer_is_repeated_soon_and_is_asked_anew_later(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    path = f"/api/desktops/{DESK}/freeze"
    browser.open(PAGE)
    browser.sees("Stop the agent at once")
    browser.script(
        "const asked = window.fetch;"
        "window.fetch = async (...what) => { const answer = await asked(...what);"
        " if (what[0].endsWith('/freeze')) throw new TypeError('cut'); return answer; };"
    )

    def keys_after(presses: int) -> list[str]:
        browser.click("Stop the agent at once")
        browser.wait("it is asked", lambda: len(server.asked("POST", path)) == presses)
        browser.sees("Mission Control did not answer")
        estate.advance(next(reversed(estate.operations)), state="done", endedAt=ago())
        return [key for where, key in server.keys if where == path]

    keys_after(1)
    first, again = keys_after(2)
    assert again == first, "it may have been done"
    browser.script("const now = Date.now; Date.now = () => now() + 130_000;")
    assert keys_after(3)[-1] != first, "it is another stop, of an agent that runs again"


def test_what_failed_some_other_time_is_in_the_timeline_alone(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    failed = {"field": "agent", "value": DESK, "reason": "does not stand still", "remedy": "Do it again"}
    estate.operation("desktop.freeze", "team-01", DESK, state="failed", endedAt=ago(days=1), problem=failed)
    browser.open(PAGE)
    browser.wait("the timeline", lambda: "does not stand still" in browser.find("section.timeline").text)
    assert "does not stand still" not in browser.find("[aria-label='The agent']").text


def test_who_may_only_see_is_told_that_an_agent_stands_still(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.role = "viewer"
    estate.change(DESK, frozenAt=ago(minutes=3))
    browser.open(PAGE)
    browser.sees("The agent stands still")
    assert browser.all("[aria-label='The agent'] button") == []


def test_who_may_only_see_is_offered_nothing_to_do(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=2)
    estate.role = "viewer"
    running = estate.operation("workspace.up", "team-01", state="running")
    browser.open(PAGE)
    browser.sees("Who may only see opens no screen")
    assert browser.all(".head button") == browser.all("main textarea") == []
    browser.open("/")
    browser.wait("the fleet", lambda: browser.all("[role=row] input"))
    assert not any(box.is_enabled() for box in browser.all("[role=row] input"))
    assert "New desktop" not in browser.text()
    browser.open("/workspaces/team-01")
    browser.sees("What its desktops may reach")
    assert browser.all("main .row button, main a.button[href^='/new']") == []
    browser.open(f"/operations/{running['id']}")
    browser.sees("Asked by")
    assert "Cancel" not in browser.text()


def test_agent_of_a_desktop_that_is_off_cannot_be_stopped(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.change(DESK, state="stopped")
    browser.open(PAGE)
    browser.sees("there is no screen to open")
    assert browser.all("[aria-label='The agent']") == []


def test_what_is_destroyed_is_named_typed_and_signed(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=2)
    browser.open(PAGE)
    browser.click("Destroy")
    browser.sees("There is no way back")
    button = browser.find("dialog .danger")
    browser.type("dialog input", "desk-2")
    assert not button.is_enabled()
    browser.type("dialog input", "desk-1")
    assert button.is_enabled()
    button.click()
    browser.sees("destroy: place 1 in the queue")
    # Whether it can be is asked before; what is signed is of the moment when it is.
    assert server.asked("POST", "/api/intents") == [{"kind": "desktop.destroy", "target": DESK}] * 2
    (sent,) = server.asked("DELETE", f"/api/desktops/{DESK}")
    assert sent["intent"]["intent"]["target"] == DESK
    assert browser.all("dialog") == []


def test_desktop_for_a_task_says_when_it_goes_and_is_only_ended(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.change(DESK, lifetime="task", until=ago(hours=-2, minutes=-5), machine="m-1")
    browser.open(PAGE)
    browser.sees("for a task, goes in 2 h")
    assert [button.text for button in browser.all(".head button")] == ["End it"]
    assert browser.all("[aria-label='The agent']") == []
    browser.click("End it")
    browser.sees("goes with all its data")
    browser.find("dialog .danger").click()
    browser.sees("end a desktop for a task: place 1 in the queue")
    (sent,) = server.asked("DELETE", "/api/workspaces/team-01/tasks/desk-1")
    assert sent["intent"]["intent"]["target"] == f"{DESK} m-1"


def test_desktop_that_goes_while_it_is_looked_at_is_said_to_be_gone(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.sees("Open screen")
    done = estate.operation("desktop.destroy", "team-01", DESK, state="done", endedAt=ago())
    estate.tell("desktop", {"id": DESK, "gone": True})
    browser.sees("It is gone. Last was done: destroy.")
    links = [link.get_attribute("href") for link in browser.all("main .missing a")]
    assert [link.removeprefix(browser.url) for link in links] == [
        f"/operations/{done['id']}",
        f"/conversations?desktop={DESK}",
    ]
    assert browser.all("main textarea") == [], "nobody is there who would answer"
    browser.wait("it is told", lambda: f"{DESK} is gone" in browser.script("return document.body.textContent"))


def test_the_only_desktop_of_a_workspace_is_named_as_such_before_anything_is_typed(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    browser.click("Destroy")
    browser.sees("is the only desktop of its workspace")
    browser.sees("create another first")
    assert not browser.find("dialog .danger").is_enabled()
    assert browser.all("dialog input") == []
    browser.click("Leave as it is")
    assert server.asked("DELETE", f"/api/desktops/{DESK}") == []
    # It is asked anew at each opening.
    estate.fill(workspaces=1, desktops=2)
    browser.click("Destroy")
    browser.type("dialog input", "desk-1")
    assert browser.find("dialog .danger").is_enabled()


def test_an_answer_that_did_not_come_refuses_no_destroy(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=2)
    browser.open(PAGE)
    browser.sees("Destroy")
    before, server.away = server.refused, True
    try:
        browser.click("Destroy")
        browser.wait("the question", lambda: server.refused > before and server.asked("POST", "/api/intents"))
    finally:
        server.away = False
    browser.type("dialog input", "desk-1")
    browser.find("dialog .danger").click()
    browser.sees("destroy: place 1 in the queue")
    assert len(server.asked("DELETE", f"/api/desktops/{DESK}")) == 1


def test_without_the_passkey_nothing_is_destroyed(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=2)
    browser.open(PAGE)
    browser.click("Destroy")
    browser.type("dialog input", "desk-1")
    browser.driver.set_user_verified(False)
    try:
        browser.find("dialog .danger").click()
        browser.sees("no passkey answered")
    finally:
        browser.driver.set_user_verified(True)
    assert server.asked("DELETE", f"/api/desktops/{DESK}") == []


def test_panels_are_resized_by_the_keyboard_and_stay_so(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open(PAGE)
    before = browser.find("section.screen").size["width"]
    browser.find("[role=separator]").send_keys(*[Keys.ARROW_LEFT] * 5)
    narrow = browser.wait(
        "it is narrower", lambda: (now := browser.find("section.screen").size["width"]) < before and now
    )
    browser.open(PAGE)
    assert browser.find("section.screen").size["width"] == narrow
    browser.find("[role=separator]").send_keys(*[Keys.ARROW_RIGHT] * 5)


def test_a_desktop_that_is_not_there_says_where_to_look(browser: Browser, estate: Estate) -> None:
    browser.open("/desktops/team-01/nothing")
    browser.sees("no such desktop")
    browser.sees("Look at the list")
