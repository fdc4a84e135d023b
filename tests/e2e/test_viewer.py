"""A person opens the link and works: pixels, keys, terminal. In a real browser."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
import yaml
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from deskyard.host.places import tree
from tests.support import browser
from tests.support.door import Door
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]
SECONDS = 120
TYPED_FILE = "/home/agent/typed"
BELIEVE = """
const real = window.fetch;
window.fetch = async (place, options) => {
  const answer = await real(place, options);
  if (place !== "session") return answer;
  return Response.json({ ...(await answer.json()), mode: "drive", drives: true });
};
"""


def wallpaper() -> str:
    defaults = yaml.safe_load((tree() / "ansible/roles/desktop_session/defaults/main.yml").read_text())
    colour: str = defaults["desktop_session_wallpaper_color"]
    return colour


def eventually(condition: Callable[[], bool], what: str, driver: Chrome, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.5)
    picture = browser.keep(driver.get_screenshot_as_png(), "failure")
    console = "\n".join(str(entry) for entry in driver.get_log("browser"))  # type: ignore[no-untyped-call]
    raise AssertionError(f"{what} did not happen within {seconds} s; screenshot {picture}\n{console}")


def says(driver: Chrome, id: str) -> str:
    text: str = driver.find_element(By.ID, id).text
    return text


def watch(driver: Chrome, link: str) -> None:
    """Open a link and wait for the picture."""
    driver.get(link)
    connected = "#desktop-state[data-state=connected]"
    eventually(lambda: bool(driver.find_elements(By.CSS_SELECTOR, connected)), "the connection", driver)


def window_to_type_in(ours: Running, driver: Chrome) -> None:
    """A terminal on the desktop that keeps the first line typed into it in a file."""
    ours.ssh("desk", f"sudo pkill -x head; sudo rm -f {TYPED_FILE}", check=False)
    shell = f"head -n 1 > {TYPED_FILE}"
    terminal = f"xfce4-terminal --disable-server --command \"sh -c '{shell}'\""
    ours.ssh("desk", f"sudo -u agent DISPLAY=:1 setsid {terminal} >/dev/null 2>&1 </dev/null &")
    eventually(lambda: "head" in ours.ssh("desk", "pgrep -a head", check=False).stdout, "a window to type in", driver)


def type_line(driver: Chrome, line: str) -> None:
    canvas = driver.find_element(By.CSS_SELECTOR, "#desktop canvas")
    ActionChains(driver).click(canvas).pause(1).send_keys(line, Keys.ENTER).perform()


def typed(ours: Running) -> str:
    return ours.ssh("desk", f"sudo cat {TYPED_FILE}", check=False).stdout.strip()


@pytest.fixture(scope="module")
def viewer(ours: Running, door: Door) -> Iterator[Chrome]:
    """A browser that opened a fresh link of e2e-a/desk and sees the desktop."""
    link = ours.grant()["url"]
    with browser.browser(door) as driver:
        driver.get(link)
        eventually(lambda: "/d/desk/" in driver.current_url, "the way from the link to the viewer", driver)
        connected = "#desktop-state[data-state=connected]"
        eventually(lambda: bool(driver.find_elements(By.CSS_SELECTOR, connected)), "the connection", driver)
        eventually(lambda: says(driver, "mode") == "drive", "the drive", driver)
        yield driver


def test_the_canvas_shows_our_wallpaper(viewer: Chrome) -> None:
    def share() -> float:
        return browser.share_of_colour(
            viewer.find_element(By.CSS_SELECTOR, "#desktop canvas").screenshot_as_png, wallpaper()
        )

    eventually(lambda: share() > 0.5, f"a canvas that is mostly {wallpaper()}", viewer)
    browser.keep(viewer.get_screenshot_as_png(), "viewer")


def test_the_ticket_is_gone_from_the_address_bar(viewer: Chrome) -> None:
    assert "#" not in viewer.current_url


def test_scripts_of_the_page_cannot_read_the_session(viewer: Chrome) -> None:
    assert viewer.execute_script("return document.cookie") == ""


def test_a_key_typed_in_the_browser_reaches_the_guest(viewer: Chrome, ours: Running) -> None:
    window_to_type_in(ours, viewer)
    type_line(viewer, "deskyard42")
    eventually(lambda: typed(ours) == "deskyard42", "the typed line in the guest", viewer)


def test_what_a_view_only_page_sends_does_not_reach_the_guest(viewer: Chrome, ours: Running, door: Door) -> None:
    window_to_type_in(ours, viewer)
    with browser.browser(door) as other:
        watch(other, ours.grant("desk", "--mode", "view")["url"])
        assert says(other, "mode") == "view only"
        # Even if the page is made to believe that it drives.
        other.execute_script(BELIEVE)
        eventually(lambda: says(other, "mode") == "drive", "the page to believe it", other)
        type_line(other, "viewer")
    type_line(viewer, "driver")
    eventually(lambda: typed(ours) == "driver", "the driver's line alone", viewer)


def test_the_drive_is_taken_and_handed_over(viewer: Chrome, ours: Running, door: Door) -> None:
    with browser.browser(door) as other:
        watch(other, ours.grant()["url"])
        eventually(lambda: says(other, "mode").startswith("watching"), "the word that somebody else drives", other)
        other.find_element(By.ID, "change-driver").click()
        eventually(lambda: says(other, "mode") == "drive", "the drive", other)
        eventually(lambda: "drives now" in says(viewer, "notice"), "the word to the former driver", viewer)
        window_to_type_in(ours, other)
        type_line(viewer, "former")
        type_line(other, "newcomer")
        eventually(lambda: typed(ours) == "newcomer", "the newcomer's line alone", other)
        browser.keep(viewer.get_screenshot_as_png(), "viewer-watching")
        other.find_element(By.ID, "change-driver").click()
        eventually(lambda: says(viewer, "mode") == "drive", "the drive back", viewer)


def test_revoking_ends_the_page_that_watches(viewer: Chrome, ours: Running, door: Door) -> None:
    granted = ours.grant("desk", "--mode", "view")
    with browser.browser(door) as other:
        watch(other, granted["url"])
        ours.inv("access.revoke", ours.name, "--session", granted["id"])
        revoked = "body[data-error=revoked]"
        eventually(lambda: bool(other.find_elements(By.CSS_SELECTOR, revoked)), "the word of the revocation", other)
    assert says(viewer, "mode") == "drive"


def test_the_picture_goes_on_while_the_gateway_reloads(viewer: Chrome, ours: Running) -> None:
    before = ours.ssh("gateway", "sudo deskyard-gateway list").stdout
    ours.ssh("gateway", "sudo systemctl reload haproxy.service")
    window_to_type_in(ours, viewer)
    type_line(viewer, "reloaded")
    eventually(lambda: typed(ours) == "reloaded", "a line typed after the reload", viewer)
    opened = {entry["id"]: entry["since"] for entry in json.loads(before) if entry["streams"]}
    after = {
        entry["id"]: entry["since"] for entry in json.loads(ours.ssh("gateway", "sudo deskyard-gateway list").stdout)
    }
    # The very same connections: none was made anew.
    assert {id: after[id] for id in opened} == opened


def test_the_terminal_echoes(viewer: Chrome) -> None:
    rows = viewer.find_element(By.CSS_SELECTOR, ".xterm-rows")
    eventually(lambda: "$" in rows.text, "a prompt in the terminal", viewer)
    viewer.find_element(By.CSS_SELECTOR, ".xterm-screen").click()
    ActionChains(viewer).send_keys("echo deskyard-$((40+2))", Keys.ENTER).perform()
    eventually(lambda: "deskyard-42" in rows.text, "the answer in the terminal", viewer)
    browser.keep(viewer.get_screenshot_as_png(), "viewer-terminal")


def test_the_page_loads_nothing_from_elsewhere(viewer: Chrome, ours: Running) -> None:
    script = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    loaded: list[str] = viewer.execute_script(script)
    assert loaded
    own = (ours.plan.gateway.url, ours.plan.gateway.url.replace("https:", "wss:"))
    assert [name for name in loaded if not name.startswith(own)] == []


def test_the_chat_panel_says_honestly_that_chat_comes_later(viewer: Chrome) -> None:
    assert "chat" in viewer.find_element(By.TAG_NAME, "body").text.lower()


def test_a_used_link_shows_a_page_a_person_understands(ours: Running, door: Door) -> None:
    link = ours.grant()["url"]
    assert door.redeem(link)[0] in (200, 204)
    with browser.browser(door) as driver:
        driver.get(link)
        eventually(lambda: "used" in driver.find_element(By.TAG_NAME, "body").text.lower(), "the reason", driver)
        assert "/d/desk/" not in driver.current_url
