"""The pages, built once, served by a stand-in of the API, and driven in a real browser that has a passkey."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions

from tests.support.browser import ONE_PROCESS, SWITCHES
from tests.support.requirements import need_programs
from tests.web.browser import Browser
from tests.web.estate import Estate
from tests.web.stand_in import StandIn, running

TREE = Path(__file__).resolve().parents[2]
SOURCES = ("package.json", "package-lock.json", "build.js", "svelte.config.js", "tsconfig.json")


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with their packages beside it, as npm's lock has them."""
    need_programs("npm", "node")
    copy = tmp_path_factory.mktemp("web")
    for name in SOURCES:
        shutil.copy(TREE / "web" / name, copy / name)
    shutil.copytree(TREE / "web/src", copy / "src")
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    subprocess.run(npm, cwd=copy, check=True, capture_output=True, timeout=300)
    return copy


@pytest.fixture(scope="session")
def built(workshop: Path) -> Path:
    """The folder that the web process serves."""
    subprocess.run(["node", "build.js", "out"], cwd=workshop, check=True, capture_output=True, timeout=120)
    return workshop / "out"


@pytest.fixture(scope="session")
def axe(workshop: Path) -> str:
    """The program that looks for faults of accessibility."""
    return (workshop / "node_modules/axe-core/axe.min.js").read_text()


@pytest.fixture(scope="session")
def server(built: Path) -> Iterator[StandIn]:
    with running(built) as stand_in:
        yield stand_in


@contextmanager
def chromium(*switches: str) -> Iterator[Any]:
    """A fresh browser with a passkey that agrees to everything."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    authenticator = VirtualAuthenticatorOptions()
    authenticator.protocol = VirtualAuthenticatorOptions.Protocol.CTAP2
    authenticator.transport = VirtualAuthenticatorOptions.Transport.INTERNAL
    authenticator.has_resident_key = authenticator.has_user_verification = authenticator.is_user_verified = True
    with tempfile.TemporaryDirectory() as profile:
        for switch in (*SWITCHES, *ONE_PROCESS, *switches, f"--user-data-dir={profile}"):
            options.add_argument(switch)
        driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        try:
            driver.set_page_load_timeout(60)
            driver.set_script_timeout(60)
            driver.add_virtual_authenticator(authenticator)
            yield driver
        finally:
            driver.quit()


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    need_programs("chromium", "chromedriver")
    with chromium() as running_browser:
        yield running_browser


@pytest.fixture
def estate(server: StandIn) -> Estate:
    """An empty estate, for this test alone."""
    server.estate, server.away, server.full = server.estate.anew(), False, False
    server.requests.clear()
    server.keys.clear()
    server.held.clear()
    return server.estate


@pytest.fixture
def browser(driver: Any, server: StandIn, estate: Estate) -> Iterator[Browser]:
    """A browser in which Ada is signed in; the test fails if the page broke its policy or threw an error."""
    found = Browser(driver, server.url)
    found.enrol(server)
    yield found
    keep = os.environ.get("DESKYARD_SCREENSHOTS")
    if keep:
        name = os.environ["PYTEST_CURRENT_TEST"].split("::")[1].split(" ")[0]
        driver.save_screenshot(str(Path(keep) / f"{name}.png"))
    found.complaints_are([])
