"""The full image on a screen: what a person sees of its programs, through the gateway, in a real browser."""

from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.e2e.full_desktop import PAGE, PAGE_COLOUR, as_agent, await_window, open_on_screen, share
from tests.e2e.live_suites import SECONDS, begin_suites
from tests.e2e.test_viewer import eventually, wallpaper
from tests.support import browser
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.deep]
# What the office writes on, and a comment in the editor: blocks, so that there is much of its colour.
PAPER, COMMENT = "#ffffff", "#6e7781"
PROGRAM = "print(42)\n" + f"# {'█' * 60}\n" * 20


def test_desktop_shows_its_wallpaper(full: Running, full_viewer: Chrome) -> None:
    eventually(lambda: share(full_viewer, wallpaper()) > 0.5, f"a canvas that is mostly {wallpaper()}", full_viewer)
    browser.keep(full_viewer.get_screenshot_as_png(), "agent-desktop")


def test_browser_shows_a_local_page(full: Running, full_viewer: Chrome) -> None:
    full.ssh("desk", "sudo -u agent tee /home/agent/page.html", stdin=PAGE)
    open_on_screen(full, "chromium file:///home/agent/page.html")
    await_window(full, full_viewer, "local page", PAGE_COLOUR, "agent-browser")


def test_editor_opens_a_folder(full: Running, full_viewer: Chrome) -> None:
    as_agent(full, "mkdir -p project")
    # On standard input: on a command line sudo's login shell joins its lines.
    full.ssh("desk", "sudo -u agent tee /home/agent/project/answer.py", stdin=PROGRAM)
    open_on_screen(full, "code project/answer.py")
    await_window(full, full_viewer, "answer.py - project", COMMENT, "agent-editor", least=0.05)


def test_office_shows_a_document_and_makes_a_pdf_of_it(full: Running, full_viewer: Chrome) -> None:
    as_agent(full, "echo 'A letter.' >letter.txt && soffice --headless --convert-to odt letter.txt")
    as_agent(full, "soffice --headless --convert-to pdf letter.odt")
    assert as_agent(full, "head -c 5 letter.pdf") == "%PDF-"
    open_on_screen(full, "soffice --nologo letter.odt")
    await_window(full, full_viewer, "letter.odt", PAPER, "agent-office")


def test_terminal_goes_on_after_the_link_was_dropped(full: Running, full_viewer: Chrome) -> None:
    def rows() -> str:
        return "".join(found.text for found in full_viewer.find_elements(By.CSS_SELECTOR, ".xterm-rows"))

    eventually(lambda: "$" in rows(), "a prompt in the terminal", full_viewer)
    full_viewer.find_element(By.CSS_SELECTOR, ".xterm-screen").click()
    full_viewer.switch_to.active_element.send_keys("kept=4$((1+1)); echo before-$kept", Keys.ENTER)
    eventually(lambda: "before-42" in rows(), "the answer in the terminal", full_viewer)
    full_viewer.refresh()
    eventually(lambda: "before-42" in rows(), "what was there before", full_viewer)
    full_viewer.find_element(By.CSS_SELECTOR, ".xterm-screen").click()
    full_viewer.switch_to.active_element.send_keys("echo after-$kept", Keys.ENTER)
    eventually(lambda: "after-42" in rows(), "the same shell", full_viewer)
    browser.keep(full_viewer.get_screenshot_as_png(), "agent-terminal")


def test_live_machine_passes_the_suites_of_its_image(full: Running, tmp_path: Path) -> None:
    log = tmp_path / "suites.log"
    with begin_suites(full, "desk", "agent", log) as process:
        try:
            code = process.wait(SECONDS)
        finally:
            process.kill()
    assert code == 0, log.read_text()[-8000:]
