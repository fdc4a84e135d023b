"""The whole way of a new user, in Chromium: Mission Control, a real agent with a model, and real machines."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.host.places import places
from tests.e2e.conftest import alone, door_of
from tests.e2e.full_desktop import set_up_agent
from tests.e2e.test_control import PORT, Mission
from tests.e2e.test_viewer import type_line, typed, watch, window_to_type_in
from tests.support import browser as browsers
from tests.support.door import Door
from tests.support.outside import BODY, Outside
from tests.support.site_host import SiteHost
from tests.support.workspaces import Running
from tests.web.browser import Browser
from tests.web.conftest import chromium

pytestmark = [pytest.mark.vm, pytest.mark.deep]
PAY = "pay.example.org"
CERTIFICATE = "/tmp/outside.pem"
# The longest wait of the way: an emulated desktop is made, boots and is ready.
PATIENCE_SECONDS = 2400
PAUSE_SECONDS = 1.0
TRIES = 9
ATTEMPTS, FAILED = 3, "could not do it"
FETCH = f"curl -s --cacert {CERTIFICATE} https://{PAY}/"
ANSWER = f"The command said: {BODY} {PAY}"
PROMPT = "Mind the harbour."
DESK, NEW = "desk", "walk"


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A locked workspace whose agent has a model, and an outside that answers for a name that people decide about."""
    folder = tmp_path_factory.mktemp("stacks")
    named = {"name": "e2e-walk", "egress_allow": (), "egress_ask": (PAY,)}
    with alone(folder, "agent", "10.91.7.0/24", 18450, **named) as running, SiteHost() as host:
        names = {PAY: host.internet_address}
        with Outside(running.plan, names, host.internet_address, tmp_path_factory.mktemp("outside")) as outside:
            running.ssh(DESK, f"cat > {CERTIFICATE}", stdin=outside.certificate.read_text())
            set_up_agent(running, PROMPT)
            yield running


@pytest.fixture
def mission(walked: Running) -> Iterator[tuple[Mission, str]]:
    """A Mission Control of the workspace, and the link that enrols its first person."""
    folder = Path(tempfile.mkdtemp(prefix="deskyard-mission."))
    folder.chmod(0o711)
    found = Mission(folder, walked)
    try:
        yield found, str(found.inv("control.up", "--port", str(PORT), "--json")["link"])
    finally:
        found.inv("control.down")
        shutil.rmtree(folder)


def test_new_user_goes_the_whole_way(walked: Running, mission: tuple[Mission, str]) -> None:
    control, link = mission
    url = f"https://mission.localhost:{PORT}"
    authority = places().sites / walked.plan.site / "ca.pem"
    trusted = [browsers.certificate_of(door) for door in (Door(url, authority), door_of(walked))]
    with chromium(browsers.trust_alone(*trusted)) as driver:
        page = Browser(driver, url, PATIENCE_SECONDS, PAUSE_SECONDS)
        try:
            _enrols(page, link, walked)
            _creates_a_desktop(page, walked)
            _gives_a_task_and_allows_what_it_asks_for(page, walked)
            _drives_the_screen(page, walked)
            _waits_for_the_new_desktop_stops_and_starts_it(page, walked)
            control.inv("control.down")
            control.inv("control.up", "--port", str(PORT), "--json")
            _finds_the_conversation_again(page, walked)
            _sees_who_was_there(page, walked)
            _destroys_the_new_desktop(page, walked)
        except BaseException:
            browsers.keep(driver.get_screenshot_as_png(), "walk-failure")
            raise


def _enrols(page: Browser, link: str, walked: Running) -> None:
    page.open(link.removeprefix(page.url))
    page.click("Enrol")
    page.sees(f"{DESK} {walked.name}")


def _creates_a_desktop(page: Browser, walked: Running) -> None:
    page.open(f"/new?workspace={walked.name}")
    page.type("input[maxlength='40']", NEW)
    page.click("Create the desktop")
    page.wait("its page", lambda: page.path() == f"/desktops/{walked.name}/{NEW}")
    page.sees("create: ")


def _gives_a_task_and_allows_what_it_asks_for(page: Browser, walked: Running) -> None:
    page.open(f"/desktops/{walked.name}/{DESK}")
    # Each try is held until a person has decided; the first finds an answer that came too late.
    _asks(page, f"{FETCH} --retry {TRIES} --retry-all-errors", lambda: page.all("details.tool"))
    browsers.keep(page.driver.get_screenshot_as_png(), "walk-task")
    page.open("/approvals")
    page.sees(f"{PAY}:443")
    page.click("15 minutes")
    page.find("dialog .primary").click()
    page.wait("the dialog is gone", lambda: page.all("dialog") == [])
    page.open(f"/desktops/{walked.name}/{DESK}")
    # OpenClaw does not wait in its turn for a command that takes as long as a person.
    _asks(page, FETCH, lambda: ANSWER in page.text())
    browsers.keep(page.driver.get_screenshot_as_png(), "walk-answer")


def _asks(page: Browser, command: str, came: Callable[[], Any]) -> None:
    """Give the agent a task until what is to come of it came.

    On an emulated processor OpenClaw may fail a turn by itself, when its own database keeps it waiting.
    """
    for _ in range(ATTEMPTS):
        before = page.text().count(FAILED)
        page.type("textarea", f"Please run `{command}` for me.")
        page.click("Send")
        page.sees(command)
        page.wait("what comes of it", lambda before=before: came() or page.text().count(FAILED) > before)  # type: ignore[misc]
        if came():
            return
    raise AssertionError(f"{command}: failed {ATTEMPTS} times\n{page.text()}")


def _drives_the_screen(page: Browser, walked: Running) -> None:
    page.click("Open screen")
    found = page.find("a[target='_blank']").get_attribute("href")
    own = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    watch(page.driver, found)
    # The same conversation, carried to the gateway's page.
    page.wait("the chat beside it", lambda: ANSWER in page.driver.find_element("id", "chat-messages").text)
    window_to_type_in(walked, page.driver)
    type_line(page.driver, "driven by a person")
    page.wait("what was typed", lambda: typed(walked) == "driven by a person")
    browsers.keep(page.driver.get_screenshot_as_png(), "walk-screen")
    page.driver.close()
    page.driver.switch_to.window(own)


def _waits_for_the_new_desktop_stops_and_starts_it(page: Browser, walked: Running) -> None:
    page.open(f"/desktops/{walked.name}/{NEW}")
    # Nothing is loaded anew: the page hears of it.
    page.sees("Open screen")
    page.click("Stop")
    page.find("dialog .primary").click()
    page.sees("The desktop is stopped")
    page.click("Start")
    page.sees("Open screen")


def _finds_the_conversation_again(page: Browser, walked: Running) -> None:
    page.open("/conversations?q=command")
    page.sees(f"{walked.name}.{DESK}, ")
    page.find("main li a").click()
    page.sees(ANSWER)


def _sees_who_was_there(page: Browser, walked: Running) -> None:
    page.open(f"/workspaces/{walked.name}")
    look = page.find("section.card button")
    look.click()
    page.wait("it looks", lambda: not look.is_enabled())
    page.wait("it has looked", look.is_enabled)
    page.open(f"/desktops/{walked.name}/{DESK}")
    timeline = "ol[aria-label='What happened']"
    for words in (": drives", "agent", "open the screen", f"asks for {PAY}:443", "exec"):
        page.wait(f"the timeline has {words!r}", lambda words=words: words in page.find(timeline).text)  # type: ignore[misc]
    browsers.keep(page.driver.get_screenshot_as_png(), "walk-timeline")


def _destroys_the_new_desktop(page: Browser, walked: Running) -> None:
    page.open(f"/desktops/{walked.name}/{NEW}")
    page.click("Destroy")
    page.type("dialog input", NEW)
    page.find("dialog .danger").click()
    page.sees("destroy: ")
    page.open("/")
    page.sees(f"{DESK} {walked.name}")
    page.sees_no(f"{NEW} {walked.name}")
