"""The viewer in a real browser: a gateway with the built pages, and Chromium that finds it by its name."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME, Gateway, wait_for
from tests.gateway.talkers import COLOUR, Talker
from tests.gateway.test_stopping import own_names
from tests.support.browser import ALONE, ONE_PROCESS
from tests.support.requirements import need_programs

PIXEL = """
const canvas = document.querySelector("#desktop canvas");
if (!canvas || !canvas.width) return null;
return Array.from(canvas.getContext("2d").getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data).slice(0, 3);
"""


@contextmanager
def viewed_gateway(viewer: Path, talker: Talker, kind: type[Gateway] = Gateway) -> Iterator[Gateway]:
    """A gateway with the built viewer and desktops that can be looked at."""
    need_programs("chromium", "chromedriver")
    with run_gateway(kind(viewer=viewer, talk=talker, names=own_names())) as gateway:
        talker.terminal_port = lambda: gateway.ports["terminal"]
        yield gateway


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium, which finds a gateway of these tests by its name."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in (
        *ALONE,
        *ONE_PROCESS,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,940",
        # The test's authority is in no store of the browser; the chain is verified by the other tests.
        "--ignore-certificate-errors",
        f"--host-resolver-rules=MAP {HOSTNAME} 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    running.set_page_load_timeout(60)
    try:
        yield running
    finally:
        running.quit()


@contextmanager
def fresh(driver: Any, viewed: Gateway) -> Iterator[None]:
    """A browser that knows nothing of the test before, and desktops that nobody looks at."""
    viewed.revoke(all=True)
    yield
    keep = os.environ.get("DESKYARD_SCREENSHOTS")
    if keep:
        name = os.environ["PYTEST_CURRENT_TEST"].split("::")[1].split(" ")[0]
        driver.save_screenshot(str(Path(keep) / f"{name}.png"))
    driver.delete_all_cookies()
    driver.get("about:blank")
    driver.get_log("browser")


def text(browser: Any, id: str) -> str:
    found: str = browser.find_element(By.ID, id).text
    return found


def opened(browser: Any, gateway: Gateway, desktop: str = "d1", **options: Any) -> str:
    """Open a fresh link and wait for the picture; the session's id."""
    granted = gateway.grant(desktop, **options)
    browser.get(granted["url"])
    wait_for("the picture", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    return str(granted["id"])


def complaints(browser: Any) -> list[str]:
    """What the browser says against the page: refused sources, errors of scripts."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
