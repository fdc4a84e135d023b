"""The desktop of the full image: what its agent's user does on it, and what people see of that."""

import shlex

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.e2e.test_viewer import eventually
from tests.support import browser
from tests.support.workspaces import Running

# An emulated machine takes minutes to open a large program.
OPEN_SECONDS = 900
CLOSE = "for _ in $(seq 60); do sudo pkill -u agent 'chromium|soffice' || break; sleep 1; done"
PAGE_COLOUR = "#2a9d8f"
PAGE = f"<!doctype html><title>local page</title><body style='background:{PAGE_COLOUR}'><h1>A local page"


def as_agent(full: Running, command: str) -> str:
    """What a command of the desktop's user says."""
    return full.ssh("desk", f"sudo -u agent -i sh -c {shlex.quote(command)}").stdout


def open_on_screen(full: Running, command: str) -> None:
    """Start a program as the menu would, and leave it to itself."""
    as_agent(full, f"DISPLAY=:1 setsid {command} >/dev/null 2>&1 </dev/null &")


def share(viewer: Chrome, colour: str) -> float:
    """How much of the desktop's picture has a colour, and not the next one: an empty window is nearly white."""
    canvas = viewer.find_element(By.CSS_SELECTOR, "#desktop canvas")
    return browser.share_of_colour(canvas.screenshot_as_png, colour, tolerance=4)


def await_window(full: Running, viewer: Chrome, title: str, colour: str, name: str, least: float = 0.2) -> None:
    """Wait for a window and for what it draws, at least a share of the desktop's picture, and keep the picture."""
    # A window that goes while they are listed is an error of wmctrl's.
    listed = "DISPLAY=:1 wmctrl -l || true"
    eventually(lambda: title in as_agent(full, listed), f"a window named {title}", viewer, OPEN_SECONDS)
    eventually(lambda: share(viewer, colour) > least, f"a window with {colour}", viewer, OPEN_SECONDS)
    browser.keep(viewer.get_screenshot_as_png(), name)
