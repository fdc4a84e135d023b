"""On machines: whoever acts in a viewer uses a desktop, nobody uses an old one, and whoever wants it has it again."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deskyard.host.places import places
from tests.e2e.conftest import door_of
from tests.e2e.test_viewer import eventually, says, type_line, watch
from tests.support import browser
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.deep]

DESKTOP = "desk"
HOURS, HOUR_SECONDS = 2, 3600
# An emulated desktop takes more of a processor for nothing than a real one takes for work.
IDLE = {"stop_after": f"{HOURS}h", "cpu_percent": 100, "network_kib_per_second": 1024}
WAIT_SECONDS = 1500
# Of an emulated desktop.
START_SECONDS = 900


@pytest.fixture
def declared(other: Running) -> Iterator[Running]:
    """The locked workspace, whose desktop may be stopped when nobody uses it, as long as the test runs."""
    path = other.declared.folder / f"Pulumi.{other.name}.yaml"
    before = path.read_text()
    written = yaml.safe_load(before)
    written["config"]["deskyard:desktops"] = [{"name": DESKTOP, "idle": IDLE}]
    path.write_text(yaml.safe_dump(written))
    try:
        yield other
    finally:
        path.write_text(before)
        other.hang_up(DESKTOP)
        other.inv("desktop.start", f"{other.name}/{DESKTOP}", timeout=WAIT_SECONDS)


def look(running: Running, *options: str) -> dict[str, Any]:
    """How the desktop is used."""
    done = running.inv("desktop.idle", running.name, "--json", *options, timeout=WAIT_SECONDS)
    print(done.stdout, done.stderr)
    (use,) = json.loads(done.stdout)
    return dict(use)


def age(running: Running, hours: int) -> None:
    """Put the last use of the desktop back by hours."""
    path = places().workspace(running.plan.site, running.name) / "idle.json"
    seen = json.loads(path.read_text())
    seen[DESKTOP]["used_at"] -= hours * HOUR_SECONDS
    path.write_text(json.dumps(seen))


def test_what_nobody_uses_is_stopped_and_a_link_starts_it_again(declared: Running) -> None:
    running = declared
    first = look(running)
    assert (first["state"], first["used_by"]) == ("running", "nobody looked before")
    assert first["stops_at"] - first["used_at"] == HOURS * HOUR_SECONDS

    with browser.browser(door_of(running)) as driver:
        watch(driver, running.grant()["url"])
        eventually(lambda: driver.find_element("id", "mode").text == "drive", "the drive", driver)
        type_line(driver, "deskyard")
        age(running, HOURS)
        used = look(running, "--stop")
        assert used["used_by"].endswith("drives")
        assert (used["state"], used["asleep"]) == ("running", False)

    age(running, HOURS)
    running.hang_up(DESKTOP)
    stopped = look(running, "--stop")
    assert (stopped["state"], stopped["asleep"]) == ("stopped", True)
    assert look(running)["asleep"]

    answer = running.inv("access.grant", f"{running.name}/{DESKTOP}", "--json", timeout=WAIT_SECONDS)
    assert "it is started" in answer.stderr
    with browser.browser(door_of(running)) as driver:
        watch(driver, json.loads(answer.stdout)["url"])
    assert look(running)["state"] == "running"


def test_page_of_a_link_that_was_granted_before_has_its_desktop_woken_and_connects_by_itself(
    declared: Running,
) -> None:
    running = declared
    look(running)
    with browser.browser(door_of(running)) as driver:
        watch(driver, running.grant()["url"])
        page = driver.current_url
        # Whoever left the page keeps the session for a while.
        driver.get("about:blank")
        age(running, HOURS)
        running.hang_up(DESKTOP)
        assert look(running, "--stop")["asleep"]

        driver.get(page)
        eventually(lambda: says(driver, "waiting-title") == "The desktop is asked to start", "the wish", driver)
        browser.keep(driver.get_screenshot_as_png(), "asked")
        (session,) = [each for each in sessions(running) if each["wanted"] is not None]
        assert session["desktop"] == DESKTOP
        woken = look(running, "--stop")
        assert (woken["state"], woken["asleep"]) == ("running", False)
        connected = "#desktop-state[data-state=connected]"
        eventually(
            lambda: bool(driver.find_elements("css selector", connected)), "the connection", driver, START_SECONDS
        )
        assert not driver.find_element("id", "waiting").is_displayed()
        browser.keep(driver.get_screenshot_as_png(), "woken")


def sessions(running: Running) -> list[dict[str, Any]]:
    """Who may reach its desktops, and who waits for one."""
    found: list[dict[str, Any]] = json.loads(running.inv("access.list", running.name, "--json").stdout)
    return found
