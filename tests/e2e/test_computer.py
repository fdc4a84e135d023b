"""A program uses a desktop through the gateway: it sees, types, is refused beside a person, and is halted."""

import asyncio
import json
import shlex
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from deskyard_e2b.naming import sandbox_id
from deskyard_sdk import AsyncDesktop
from deskyard_sdk.mission import AsyncMissionControl
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from deskyard.computer.recording import asked
from deskyard.gateway.machine.layout import Layout
from tests.e2e.test_viewer import eventually, says, watch
from tests.support import browser
from tests.support.door import Door
from tests.support.e2b_door import Linked, served
from tests.support.workspaces import Running

pytestmark = pytest.mark.vm

ASK_MS = 280_000
# More than anything is asked to be waited for: what gives up first is the service, which says why.
ANSWER_SECONDS = 360.0
PAGE = """<!doctype html><title>Form</title><input id=n autofocus aria-label=Name>
<script>n.addEventListener("input", () => { document.title = "typed:" + n.value })</script>"""
# Bounded: the terminal starts, and what was typed is run.
TYPED = "for n in $(seq 300); do [ -s ~/typed ] && break; sleep 0.2; done; cat ~/typed"
CANVAS = "const { width, height } = document.querySelector('#desktop canvas'); return [width, height]"
# A third of the lease after which a session that nobody renews is over: emulated machines take longer for all of this.
RENEW_SECONDS = Layout().lease_seconds / 3
# Starts processes that rest until the kernel refuses one, says how many there are, and rests too.
BOMB = """import os, signal
for started in range(100_000):
    try:
        if os.fork() == 0:
            signal.pause()
    except BlockingIOError:
        break
with open("/tmp/bombed.draft", "w") as file:
    print(started, file=file)
os.rename("/tmp/bombed.draft", "/tmp/bombed")
signal.pause()"""


@dataclass
class Program:
    """Somebody's agent: it holds a token for one desktop, and renews it as clients do."""

    door: Door
    id: str
    token: str
    renewed: float = field(default_factory=time.monotonic)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and document of an answer of the service."""
        if time.monotonic() - self.renewed > RENEW_SECONDS:
            self._renew()
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        text = json.dumps(body) if body is not None else None
        status, _, answer = self.door.request(method, f"/d/desk/computer{path}", text, headers, ANSWER_SECONDS)
        return status, json.loads(answer)

    def _renew(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}", "Origin": self.door.url, "Content-Type": "application/json"}
        status, _, answer = self.door.request("POST", "/d/desk/renew", "{}", headers, ANSWER_SECONDS)
        assert status == 200, answer
        self.token, self.renewed = json.loads(answer)["token"], time.monotonic()


@pytest.fixture(scope="module")
def program(ours: Running, door: Door) -> Iterator[Program]:
    """One with all scopes; what it started and wrote is gone afterwards: others look at the screen."""
    program = granted(ours, door)
    yield program
    ours.inv("desktop.thaw", f"{ours.name}/desk")
    _, found = program.ask("GET", "/v1/processes")
    for process in found["processes"]:
        assert program.ask("DELETE", f"/v1/processes/{process['id']}")[0] == 200
    status, ran = program.ask("POST", "/v1/processes/run", {"command": "rm -f ~/typed ~/ticks ~/form.html"})
    assert (status, ran["exit_code"]) == (200, 0), ran


def granted(ours: Running, door: Door, *options: str) -> Program:
    link = ours.grant("desk", "--mode", "agent", *options)
    headers = {"Origin": door.url, "Content-Type": "application/json"}
    ticket = json.dumps({"ticket": urlsplit(link["url"]).fragment})
    status, names, text = door.request("POST", "/redeem", ticket, headers)
    assert (status, names.get("set-cookie")) == (200, None), text
    return Program(door, link["id"], json.loads(text)["token"])


def test_a_program_sees_the_screen_of_its_desktop(program: Program) -> None:
    status, picture = program.ask("GET", "/v1/screen?format=jpeg&scale=0.5")
    assert (status, picture["size"], picture["region"]) == (200, [640, 400], [0, 0, 1280, 800])


def test_what_a_program_types_is_run_in_a_terminal_that_it_awaited(program: Program) -> None:
    _, before = program.ask("GET", "/v1/drive")
    status, started = program.ask("POST", "/v1/processes", {"command": "rm -f ~/typed; exec xfce4-terminal"})
    assert status == 201, started
    wait = {"event": "window.appeared", "match": {"class": "terminal"}, "after": before["event"], "within_ms": ASK_MS}
    status, appeared = program.ask("POST", "/v1/wait", wait)
    assert status == 200, appeared
    settled = {"type": "wait", "event": "screen.settled", "quiet_ms": 1500, "within_ms": ASK_MS}
    text = {"type": "type", "text": "echo Grüße-$((6*7)) >~/typed\n"}
    status, done = program.ask("POST", "/v1/act", {"actions": [settled, text], "id": "typed-once"})
    assert (status, done["ok"]) == (200, True), done
    status, ran = program.ask("POST", "/v1/processes/run", {"command": TYPED, "timeout": ASK_MS / 1000})
    assert ran["stdout"] == "Grüße-42\n", ran
    # The same again is answered from memory, and typed no second time.
    assert program.ask("POST", "/v1/act", {"actions": [settled, text], "id": "typed-once"})[1]["results"]


def test_a_program_finds_the_field_of_a_page_and_what_it_types_there_arrives(program: Program) -> None:
    status, ran = program.ask("POST", "/v1/processes/run", {"command": f"printf %s {shlex.quote(PAGE)} >~/form.html"})
    assert (status, ran["exit_code"]) == (200, 0), ran
    page = {"application": "chromium", "targets": ["~/form.html"], "within_ms": ASK_MS}
    status, launched = program.ask("POST", "/v1/launch", page)
    assert status == 200, launched
    window = launched["window"]["id"]
    ready = {"event": "app.ready", "match": {"id": window}, "within_ms": ASK_MS}
    status, answer = program.ask("POST", "/v1/wait", ready)
    assert (status, answer.get("accessible")) == (200, True), answer
    entry = {"role": "entry", "name": "Name", "states": ["focused"], "window": window, "within_ms": 60_000}
    status, found = program.ask("POST", "/v1/accessibility/find", entry)
    assert (status, len(found["nodes"])) == (200, 1), found
    typed = {"event": "window.title", "match": {"id": window, "title": "typed:hello"}, "within_ms": ASK_MS}
    asked = {"actions": [{"type": "type", "text": "hello"}], "wait": typed}
    status, done = program.ask("POST", "/v1/act", asked)
    assert (status, done["ok"]) == (200, True), done
    assert program.ask("POST", f"/v1/windows/{window}/close")[0] == 200
    gone = {"event": "window.closed", "match": {"id": window}, "after": launched["event"], "within_ms": ASK_MS}
    assert program.ask("POST", "/v1/wait", gone)[0] == 200


def test_a_program_that_may_only_see_does_not_act(ours: Running, door: Door) -> None:
    seeing = granted(ours, door, "--scopes", "see")
    assert seeing.ask("GET", "/v1/windows")[0] == 200
    status, refused = seeing.ask("POST", "/v1/act", {"actions": [{"type": "move", "x": 1, "y": 1}]})
    assert (status, refused["error"], refused["value"]) == (403, "scope", "act")
    assert seeing.ask("POST", "/v1/processes/run", {"command": "id"})[0] == 403
    ours.inv("access.revoke", ours.name, "--session", seeing.id)
    assert seeing.ask("GET", "/v1/windows")[0] == 401


def test_a_fork_bomb_fills_its_own_share_of_the_desktop_and_no_more(ours: Running, program: Program) -> None:
    status, bomb = program.ask("POST", "/v1/processes", {"command": ["python3", "-c", BOMB], "tag": "bomb"})
    assert status == 201, bomb
    try:
        # Bounded: it says so when the desktop lets it start no more.
        full = f"for n in $(seq {ASK_MS // 200}); do [ -s /tmp/bombed ] && exit 0; sleep 0.2; done; exit 1"
        ours.ssh("desk", full)
        started, most = map(int, ours.ssh("desk", "cat /tmp/bombed /proc/sys/kernel/threads-max").stdout.split())
        assert 100 < started < most / 2
        status, picture = program.ask("GET", "/v1/screen?format=jpeg&scale=0.25")
        assert (status, picture["size"]) == (200, [320, 200]), picture
    finally:
        assert program.ask("DELETE", f"/v1/processes/{bomb['id']}")[0] == 200
    gone = "for n in $(seq 300); do pgrep -f 'started in rang[e]' >/dev/null || exit 0; sleep 0.2; done; exit 1"
    ours.ssh("desk", f"{gone}; rm -f /tmp/bombed")
    status, ran = program.ask("POST", "/v1/processes/run", {"command": "echo alive"})
    assert (status, ran["stdout"]) == (200, "alive\n"), ran


def test_a_frozen_agent_runs_nothing_until_it_is_thawed(ours: Running, program: Program) -> None:
    target = f"{ours.name}/desk"
    count = "while :; do echo x >>~/ticks; sleep 0.1; done"
    assert program.ask("POST", "/v1/processes", {"command": f"rm -f ~/ticks; {count}"})[0] == 201
    frozen = json.loads(ours.inv("desktop.freeze", target, "--json").stdout)
    assert frozen == {"desktop": target, "released": True, "frozen": True, "shut_out": True}
    size = "sudo stat -c %s /home/agent/ticks"
    first = ours.ssh("desk", size).stdout
    assert ours.ssh("desk", f"sleep 2; {size}").stdout == first
    status, refused = program.ask("GET", "/v1/windows")
    assert (status, refused["error"]) == (423, "stopped")
    thawed = json.loads(ours.inv("desktop.thaw", target, "--json").stdout)
    assert thawed["frozen"] is False
    grown = f"for n in $(seq 300); do [ $({size}) -gt {first.strip()} ] && exit 0; sleep 0.2; done; exit 1"
    ours.ssh("desk", grown)
    assert program.ask("GET", "/v1/windows")[0] == 200


def test_a_person_at_the_viewer_takes_the_drive_from_a_program(ours: Running, door: Door, program: Program) -> None:
    move = {"actions": [{"type": "move", "x": 400, "y": 300}]}
    with browser.browser(door) as driver:
        watch(driver, ours.grant()["url"])
        _, before = program.ask("GET", "/v1/drive")
        window = is_refused_while_it_types(driver, program)
        took = {"event": "person.took", "after": before["event"], "within_ms": ASK_MS}
        status, taken = program.ask("POST", "/v1/wait", took)
        assert status == 200, taken
        status, refused = program.ask("POST", "/v1/act", move)
        left = {"event": "person.left", "after": taken["seq"], "within_ms": ASK_MS}
        # An emulated machine may be so slow that they have left again.
        assert (status, refused.get("error")) == (409, "driver") or program.ask("POST", "/v1/wait", left)[0] == 200
        assert program.ask("POST", "/v1/wait", left)[0] == 200
        assert program.ask("POST", "/v1/act", move)[1]["ok"]
        assert program.ask("POST", f"/v1/windows/{window}/close")[0] == 200
        hides_and_shows(driver, program)
        stops_and_lets_go(driver, ours, program)


def is_refused_while_it_types(driver: Chrome, program: Program) -> str:
    """A person comes while the program types: what it would go on with for minutes ends there. The window's id."""
    window = terminal(program)
    _, before = program.ask("GET", "/v1/drive")
    held = {"type": "hold", "keys": "a", "ms": 30_000}
    batch = {"actions": [{"type": "type", "text": "ab" * 10_000}, *[held] * 20]}
    drawn = {"event": "region.changed", "after": before["event"], "within_ms": ASK_MS}
    canvas = driver.find_element(By.CSS_SELECTOR, "#desktop canvas")
    with ThreadPoolExecutor(1) as pool:
        typing = pool.submit(program.ask, "POST", "/v1/act", batch)
        assert program.ask("POST", "/v1/wait", drawn)[0] == 200
        assert not typing.done()
        ActionChains(driver).click(canvas).send_keys(Keys.SHIFT).perform()
        status, refused = typing.result()
    assert (status, refused["error"]) == (409, "driver"), refused
    assert not refused["results"][-1]["ok"] and len(refused["results"]) < len(batch["actions"])
    return window


def test_people_look_at_two_windows_beside_the_screen(ours: Running, door: Door, program: Program) -> None:
    windows = [terminal(program) for _ in range(2)]
    streams = [program.ask("POST", "/v1/streams", {"window": window})[1] for window in windows]
    with browser.browser(door) as driver:
        watch(driver, ours.grant("desk", "--mode", "view")["url"])
        pages = [driver.current_window_handle]
        for stream in streams:
            driver.switch_to.new_window("tab")
            watch(driver, stream["link"])
            pages.append(driver.current_window_handle)
            assert driver.execute_script(CANVAS) == stream["size"]
        shown = {stream["id"]: stream["viewers"] for stream in program.ask("GET", "/v1/streams")[1]["streams"]}
        assert shown == {stream["id"]: 1 for stream in streams}
        assert program.ask("POST", f"/v1/windows/{windows[1]}/close")[0] == 200
        eventually(lambda: says(driver, "ended-title") == "This picture is over", "its end", driver)
        for page in pages[:2]:
            driver.switch_to.window(page)
            assert driver.find_elements(By.CSS_SELECTOR, "#desktop-state[data-state=connected]")
            assert not driver.find_element(By.ID, "ended").is_displayed()
    assert program.ask("POST", f"/v1/windows/{windows[0]}/close")[0] == 200


def terminal(program: Program) -> str:
    """The id of the window of a new terminal."""
    _, before = program.ask("GET", "/v1/drive")
    assert program.ask("POST", "/v1/processes", {"command": "exec xfce4-terminal --disable-server"})[0] == 201
    wait = {"event": "window.appeared", "match": {"class": "terminal"}, "after": before["event"], "within_ms": ASK_MS}
    status, appeared = program.ask("POST", "/v1/wait", wait)
    assert status == 200, appeared
    return str(appeared["id"])


def stops_and_lets_go(driver: Chrome, ours: Running, program: Program) -> None:
    """A person stops the agent by the button of the page: the desktop's kernel says that it stands still."""
    button, badge = (driver.find_element(By.ID, name) for name in ("stop-agent", "stopped"))
    events = "cat /sys/fs/cgroup/agent.slice/cgroup.events"
    button.click()
    eventually(lambda: badge.text.startswith("agent stopped, by "), "the word of the desktop", driver)
    assert "frozen 1" in ours.ssh("desk", events).stdout
    status, refused = program.ask("GET", "/v1/windows")
    assert (status, refused["error"]) == (423, "stopped")
    button.click()
    eventually(lambda: not badge.is_displayed(), "the end of the stop", driver)
    # The door is open at once; a program starts on the desktop to let the agent go on.
    ours.ssh("desk", f"for n in $(seq 300); do {events} | grep -q 'frozen 0' && exit 0; sleep 0.2; done; exit 1")
    assert program.ask("GET", "/v1/windows")[0] == 200


def hides_and_shows(driver: Chrome, program: Program) -> None:
    """A person who drives wants privacy for a moment: a program sees nothing then, and hears when it is over."""
    _, before = program.ask("GET", "/v1/drive")
    button = driver.find_element(By.ID, "privacy")
    button.click()
    eventually(lambda: button.get_attribute("aria-pressed") == "true", "privacy", driver)
    for method, path in (("GET", "/v1/screen"), ("GET", "/v1/windows"), ("GET", "/v1/files?path=/")):
        status, refused = program.ask(method, path)
        assert (status, refused["error"]) == (423, "privacy"), (path, refused)
    button.click()
    eventually(lambda: button.get_attribute("aria-pressed") == "false", "its end", driver)
    assert program.ask("POST", "/v1/wait", {"event": "privacy.off", "within_ms": ASK_MS})[0] == 200
    assert program.ask("GET", "/v1/windows")[0] == 200
    left = {"event": "person.left", "after": before["event"], "within_ms": ASK_MS}
    assert program.ask("POST", "/v1/wait", left)[0] == 200


def moves(program: Program, after: int) -> None:
    """Move the pointer; whoever was at the viewer before may count as driving until they have left."""
    asked = {"actions": [{"type": "move", "x": 600, "y": 500}]}
    status, answer = program.ask("POST", "/v1/act", asked)
    if (status, answer.get("error")) == (409, "driver"):
        left = {"event": "person.left", "after": after, "within_ms": ASK_MS}
        assert program.ask("POST", "/v1/wait", left)[0] == 200
        status, answer = program.ask("POST", "/v1/act", asked)
    assert (status, answer.get("ok")) == (200, True), answer


def test_a_recorded_desktop_keeps_what_was_seen_and_done(ours: Running, program: Program) -> None:
    _, before = program.ask("GET", "/v1/drive")
    ours.ssh("desk", f"sudo tee {asked.PATH} >/dev/null", stdin=asked.written(asked.Asked(3600, 64 << 20)))
    try:
        started = {"event": "recording.started", "after": before["event"], "within_ms": ASK_MS}
        status, began = program.ask("POST", "/v1/wait", started)
        assert (status, began.get("keep_seconds")) == (200, 3600), began
        moves(program, began["seq"])
        _, found = program.ask("GET", "/v1/recordings")
        [entry] = found["recordings"]
        assert (found["state"], entry["open"], entry["size"]) == ("recording", True, [1280, 800])
    finally:
        ours.ssh("desk", f"sudo rm {asked.PATH}")
    stopped = {"event": "recording.stopped", "after": began["seq"], "within_ms": ASK_MS}
    assert program.ask("POST", "/v1/wait", stopped)[0] == 200
    place = f"/d/desk/computer/v1/recordings/{entry['id']}"
    bearer = {"Authorization": f"Bearer {program.token}"}
    status, _, frames = program.door.request("GET", f"{place}/frames", None, bearer, ANSWER_SECONDS)
    assert (status, frames[:12]) == (200, "FBS 001.000\n")
    status, _, actions = program.door.request("GET", f"{place}/actions", None, bearer, ANSWER_SECONDS)
    kinds = {json.loads(line)["kind"] for line in actions.splitlines()}
    assert (status, kinds - {"person.took", "person.left"}) == (200, {"move"})
    assert program.ask("DELETE", f"/v1/recordings/{entry['id']}")[0] == 200


def test_e2b_s_client_uses_the_desktop_through_its_door(ours: Running, door: Door, tmp_path: Path) -> None:
    def link(scopes: str) -> str:
        return str(ours.grant("desk", "--mode", "agent", "--scopes", scopes)["url"])

    async def opens(key: str) -> AsyncMissionControl:
        return Linked(link, str(door.authority))

    with served(tmp_path / "e2b.sqlite", opens) as program:
        sandbox = program.connect("dyk_any", sandbox_id(ours.name, "desk"), request_timeout=ANSWER_SECONDS)
        ran = sandbox.commands.run("id -un; cat", stdin=False, timeout=ANSWER_SECONDS)
        assert (ran.stdout, ran.exit_code) == ("agent\n", 0)
        sandbox.files.write("from-outside.txt", "Grüße")
        assert sandbox.files.read("from-outside.txt") == "Grüße"
        sandbox.files.remove("from-outside.txt")


@pytest.mark.deep  # a second browser starts, which takes an emulated machine minutes
def test_a_program_drives_a_browser_of_its_own_by_devtools(ours: Running, door: Door) -> None:
    link = str(ours.grant("desk", "--mode", "agent")["url"])

    async def drives() -> dict[str, Any]:
        async with await AsyncDesktop.connect(link, ca=str(door.authority)) as desktop:
            browser = await desktop.devtools.start(within=ASK_MS / 1000)
            async with await desktop.devtools.open(browser.pages[0]) as page:
                expression = "document.title = 'by DevTools ' + 6 * 7; document.title"
                said = {"id": 1, "method": "Runtime.evaluate", "params": {"expression": expression}}
                await page.send(json.dumps(said))
                answer = json.loads(await asyncio.wait_for(page.recv(), ANSWER_SECONDS))
            assert await desktop.devtools.stop()
            assert not (await desktop.devtools.state()).running
            return dict(answer["result"]["result"])

    assert asyncio.run(drives()) == {"type": "string", "value": "by DevTools 42"}
