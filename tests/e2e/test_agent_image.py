"""The full image on a screen: what a person sees of its programs, through the gateway, in a real browser."""

import shlex
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from deskyard.run.accelerator import accelerator
from tests.e2e.conftest import door_of
from tests.e2e.test_viewer import eventually, wallpaper, watch
from tests.support import browser
from tests.support.workspaces import Declared, Running, bring_up, inv, plan, take_down

pytestmark = [pytest.mark.vm, pytest.mark.deep]
IMAGE = "agent"
# An emulated machine takes minutes to open a large program.
BUILD_SECONDS, OPEN_SECONDS = 6 * 3600, 900
CLOSE = "for _ in $(seq 60); do sudo pkill -u agent 'chromium|soffice' || break; sleep 1; done"
# What the editor and the office write on. The window before it is drawn is white, too, but has another title then.
PAPER = "#ffffff"
PAGE_COLOUR = "#2a9d8f"
PAGE = f"<!doctype html><title>local page</title><body style='background:{PAGE_COLOUR}'><h1>A local page"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A workspace with one desktop of the full image, up."""
    folder = tmp_path_factory.mktemp("stacks")
    declared = Declared("e2e-agent", "10.91.3.0/24", 18445, ("desk",), folder, image=IMAGE)
    inv(folder, "image.build", IMAGE, timeout=BUILD_SECONDS)
    try:
        bring_up([declared])
        yield Running(declared, plan(declared, accelerator("auto")))
    finally:
        take_down([declared])


@pytest.fixture
def viewer(desk: Running) -> Iterator[Chrome]:
    """A browser that shows the desktop; what a test opened on it, and its end left, is closed."""
    with browser.browser(door_of(desk)) as driver:
        watch(driver, desk.grant()["url"])
        yield driver
    desk.ssh("desk", CLOSE)


def as_agent(desk: Running, command: str) -> str:
    """What a command of the desktop's user says."""
    return desk.ssh("desk", f"sudo -u agent -i sh -c {shlex.quote(command)}").stdout


def open_on_screen(desk: Running, command: str) -> None:
    """Start a program as the menu would, and leave it to itself."""
    as_agent(desk, f"DISPLAY=:1 setsid {command} >/dev/null 2>&1 </dev/null &")


def share(viewer: Chrome, colour: str) -> float:
    canvas = viewer.find_element(By.CSS_SELECTOR, "#desktop canvas")
    return browser.share_of_colour(canvas.screenshot_as_png, colour)


def await_window(desk: Running, viewer: Chrome, title: str, colour: str, name: str) -> None:
    """Wait for a window and for what it draws, and keep the picture."""
    # A window that goes while they are listed is an error of wmctrl's.
    listed = "DISPLAY=:1 wmctrl -l || true"
    eventually(lambda: title in as_agent(desk, listed), f"a window named {title}", viewer, OPEN_SECONDS)
    eventually(lambda: share(viewer, colour) > 0.2, f"a window with {colour}", viewer, OPEN_SECONDS)
    browser.keep(viewer.get_screenshot_as_png(), name)


def test_desktop_shows_its_wallpaper(desk: Running, viewer: Chrome) -> None:
    eventually(lambda: share(viewer, wallpaper()) > 0.5, f"a canvas that is mostly {wallpaper()}", viewer)
    browser.keep(viewer.get_screenshot_as_png(), "agent-desktop")


def test_browser_shows_a_local_page(desk: Running, viewer: Chrome) -> None:
    desk.ssh("desk", "sudo -u agent tee /home/agent/page.html", stdin=PAGE)
    open_on_screen(desk, "chromium file:///home/agent/page.html")
    await_window(desk, viewer, "local page", PAGE_COLOUR, "agent-browser")


def test_editor_opens_a_folder(desk: Running, viewer: Chrome) -> None:
    as_agent(desk, "mkdir -p project && echo 'print(42)' >project/answer.py")
    open_on_screen(desk, "code project/answer.py")
    await_window(desk, viewer, "answer.py - project", PAPER, "agent-editor")


def test_office_shows_a_document_and_makes_a_pdf_of_it(desk: Running, viewer: Chrome) -> None:
    as_agent(desk, "echo 'A letter.' >letter.txt && soffice --headless --convert-to odt letter.txt")
    as_agent(desk, "soffice --headless --convert-to pdf letter.odt")
    assert as_agent(desk, "head -c 5 letter.pdf") == "%PDF-"
    open_on_screen(desk, "soffice --nologo letter.odt")
    await_window(desk, viewer, "letter.odt", PAPER, "agent-office")


def test_terminal_goes_on_after_the_link_was_dropped(desk: Running, viewer: Chrome) -> None:
    def rows() -> str:
        return "".join(found.text for found in viewer.find_elements(By.CSS_SELECTOR, ".xterm-rows"))

    eventually(lambda: "$" in rows(), "a prompt in the terminal", viewer)
    viewer.find_element(By.CSS_SELECTOR, ".xterm-screen").click()
    viewer.switch_to.active_element.send_keys("kept=4$((1+1)); echo before-$kept", Keys.ENTER)
    eventually(lambda: "before-42" in rows(), "the answer in the terminal", viewer)
    viewer.refresh()
    eventually(lambda: "before-42" in rows(), "what was there before", viewer)
    viewer.find_element(By.CSS_SELECTOR, ".xterm-screen").click()
    viewer.switch_to.active_element.send_keys("echo after-$kept", Keys.ENTER)
    eventually(lambda: "after-42" in rows(), "the same shell", viewer)
    browser.keep(viewer.get_screenshot_as_png(), "agent-terminal")
