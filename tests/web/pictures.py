"""Takes the pictures of each page for the documentation: python -m tests.web.pictures BUILT FOLDER."""

import io
import sys
from pathlib import Path

from PIL import Image

from tests.web.browser import Browser
from tests.web.conftest import chromium
from tests.web.stand_in import running
from tests.web.test_every_page import furnish, visit

SIZE = (1200, 750)
MOST_BYTES = 60_000
# What stands further down on its page, by its heading.
BELOW = {"upkeep": "As the host sees it", "people": "People", "rules": "Who answers approvals"}
SCROLL = """
const title = [...document.querySelectorAll("h2")].find((each) => each.textContent === arguments[0]);
document.querySelector("main").scrollBy(0, title.getBoundingClientRect().top - 80);
"""
# A picture may else have the page at one place, and its scroll bar at another.
DRAWN = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
PICTURES = {
    "sign-in": "/sign-in",
    "enrol": "/enrol#once",
    "fleet": "/",
    "new-desktop": "/new",
    "desktop": "/desktops/team-01/desk-1",
    "conversations": "/conversations",
    "conversation": "/conversations/talk",
    "operations": "/operations",
    "operation": "/operations/OPERATION",
    "waiting": "/operations/op-waits",
    "new-workspace": "/new-workspace",
    "workspaces": "/workspaces",
    "workspace": "/workspaces/team-01",
    "upkeep": "/workspaces/team-01",
    "approvals": "/approvals",
    "alerts": "/alerts",
    "usage": "/usage",
    "audit": "/audit",
    "settings": "/settings",
    "people": "/settings",
    "rules": "/settings",
}


def main(built: Path, folder: Path) -> None:
    """Write NAME-THEME.webp for each page in both themes."""
    folder.mkdir(parents=True, exist_ok=True)
    with running(built) as server, chromium() as driver:
        metrics = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser = Browser(driver, server.url)
        browser.enrol(server)
        operation = furnish(server.estate)
        for theme in ("light", "dark"):
            browser.script("localStorage.setItem('theme', arguments[0])", theme)
            for name, path in PICTURES.items():
                visit(browser, path, operation)
                if name in BELOW:
                    browser.script(SCROLL, BELOW[name])
                    driver.execute_async_script(DRAWN)
                path_of_picture = folder / f"{name}-{theme}.webp"
                Image.open(io.BytesIO(driver.get_screenshot_as_png())).save(path_of_picture, quality=60, method=6)
                assert path_of_picture.stat().st_size <= MOST_BYTES


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
