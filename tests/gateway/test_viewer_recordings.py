"""What a real desktop recorded, looked back at in a real browser, through the real door."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.recording import fbs
from deskyard.computer.recording.recorder import Limits
from tests.computer.conftest import NEEDED
from tests.computer.desktop import Service, XServer, in_front, managed, temporary
from tests.computer.test_recording import near, recorded, shown, written_until
from tests.computer.test_streams import paint, screen, speckle
from tests.gateway.desktops import FakeDesktops
from tests.gateway.support import Gateway, wait_for
from tests.gateway.talkers import Talker
from tests.gateway.viewer_browser import chromium, complaints, fresh, opened, text, viewed_gateway
from tests.support.requirements import need_programs
from tests.unit.sdk.test_replay import BLUE, RED, SIZE, update

PICTURE = """
const canvas = document.querySelector("#player-screen canvas");
return canvas && canvas.width ? canvas.toDataURL("image/png") : null;
"""


class Recorded(Gateway):
    """A gateway whose desktop d1 has the real service of a real screen; that of d2 says what it is asked."""

    def play_desktops(self) -> FakeDesktops:
        places = [(address, port) for address in self.names.values() for port in self.ports.values()]
        places.remove((self.names["d1"], self.ports["computer"]))
        return FakeDesktops(places, self.talk)


@pytest.fixture(scope="module")
def viewed(viewer: Path) -> Iterator[Gateway]:
    need_programs(*NEEDED)
    with viewed_gateway(viewer, Talker(lambda: 0), Recorded) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def server() -> Iterator[XServer]:
    """A screen with a window manager."""
    with managed() as running:
        yield running


@pytest.fixture(scope="module")
def service(viewed: Gateway, server: XServer) -> Iterator[Service]:
    """The service of d1, for that screen."""
    with temporary() as kept:
        place = (viewed.names["d1"], viewed.ports["computer"])
        running = Service(server.display, recorded=kept, limits=Limits(least_free=0), place=place)
        yield running
        running.stop()


@pytest.fixture(scope="module")
def driver(viewed: Gateway) -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def browser(driver: Any, viewed: Gateway, service: Service) -> Iterator[Any]:
    with fresh(driver, viewed):
        yield driver


@pytest.fixture
def film(service: Service, server: XServer) -> Iterator[tuple[Image.Image, Image.Image]]:
    """A recording of d1: what its screen showed first and last; between, a click and a letter came."""
    with in_front(server, service) as window:
        speckle(window)
        first = screen(service)
        with recorded(service) as stop:
            written_until(service, lambda entry: entry["frames"] > 0)
            service.did({"type": "click", "x": 150, "y": 160, "space": f"window:{window.id}"})
            service.did({"type": "type", "text": "a"})
            paint(window, 0x3366CC)
            last = screen(service)
            newest = written_until(service, lambda entry: entry["actions"] == 2)
            url = f"/v1/recordings/{newest['id']}/frames"
            written_until(service, lambda entry: near(shown(service.client.get(url).content), last))
            stop()
            yield first, last


def picture(browser: Any) -> Image.Image | None:
    data = browser.execute_script(PICTURE)
    return Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))).convert("RGB") if data else None


def shows(browser: Any, expected: Image.Image) -> bool:
    found = picture(browser)
    return found is not None and near(found, expected)


def entry(browser: Any) -> Any:
    return browser.find_element(By.ID, "show-recordings")


def look(browser: Any, viewed: Gateway, **options: Any) -> list[Any]:
    """Open a desktop's page and its list of recordings: the entries."""
    opened(browser, viewed, **options)
    wait_for("the entry", lambda: entry(browser).is_displayed(), 30)
    entry(browser).click()
    wait_for("the list", lambda: "recorded" in text(browser, "recordings-state"), 30)
    return list(browser.find_elements(By.CSS_SELECTOR, "#recordings-list button"))


def test_desktop_that_has_no_recordings_has_no_entry_for_them(browser: Any, viewed: Gateway, service: Service) -> None:
    opened(browser, viewed)
    script = (
        "return fetch('recordings').then((answer) => answer.json()).then(({ state, count }) => `${state} ${count}`)"
    )
    assert browser.execute_script(script) == "off 0"
    assert not entry(browser).is_displayed()
    assert complaints(browser) == []


def test_recording_is_played_and_sought_with_what_was_done(
    browser: Any, viewed: Gateway, film: tuple[Image.Image, Image.Image]
) -> None:
    first, last = film
    (listed,) = look(browser, viewed)
    assert "kB" in listed.text or "MB" in listed.text
    listed.click()
    wait_for("the first picture", lambda: shows(browser, first), 30)
    actions = browser.find_elements(By.CSS_SELECTOR, "#player-actions button")
    assert ["agent click 150,160" in actions[0].text, "agent type" in actions[1].text] == [True, True]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#player-marks .agent")) == 2
    seek = browser.find_element(By.ID, "player-seek")
    seek.send_keys(Keys.END)
    wait_for("the last picture", lambda: shows(browser, last), 30)
    assert seek.get_attribute("aria-valuetext") == text(browser, "player-time")
    seek.send_keys(Keys.HOME)
    wait_for("the first picture again", lambda: shows(browser, first), 30)
    actions[1].click()
    wait_for("the second action", lambda: actions[1].get_attribute("aria-current") == "true")
    Select(browser.find_element(By.ID, "player-speed")).select_by_visible_text("16")
    browser.find_element(By.ID, "player-play").send_keys(Keys.SPACE)
    wait_for("the end", lambda: shows(browser, last) and text(browser, "player-play") == "Play", 30)
    assert complaints(browser) == []
    browser.find_element(By.ID, "player-play").send_keys(Keys.ESCAPE)
    assert not browser.find_element(By.ID, "recordings").is_displayed()


def test_what_stands_still_is_passed_over_unless_it_is_wanted(
    browser: Any, viewed: Gateway, service: Service, film: tuple[Image.Image, Image.Image]
) -> None:
    whole = Rectangle(0, 0, *SIZE)
    red, blue = (Image.new("RGB", SIZE, colour) for colour in (RED, BLUE))
    frames = [fbs.block(update((whole, picture)), ms) for picture, ms in ((red, 0), (blue, 600_000))]
    (path,) = (service.recorded / "recordings").glob("*.fbs")
    path.write_bytes(fbs.beginning(*SIZE) + b"".join(frames))
    (listed,) = look(browser, viewed)
    listed.click()
    wait_for("the first picture", lambda: shows(browser, red), 30)
    skip, play = (browser.find_element(By.ID, f"player-{name}") for name in ("skip", "play"))
    skip.click()
    play.click()
    wait_for("two seconds", lambda: text(browser, "player-time").startswith("0:02"), 30)
    assert shows(browser, red)
    skip.click()
    wait_for("the end", lambda: shows(browser, blue) and text(browser, "player-play") == "Play", 30)
    assert text(browser, "player-time").startswith("10:00.0 of 10:00.0")
    # Once more from the beginning, where it is over.
    play.click()
    wait_for("the beginning", lambda: shows(browser, red), 30)


def test_after_a_recording_the_next_newer_one_is_played(
    browser: Any, viewed: Gateway, service: Service, film: tuple[Image.Image, Image.Image]
) -> None:
    with recorded(service) as stop:
        written_until(service, lambda entry: entry["open"] and entry["frames"] > 0)
        stop()
        newer, older = look(browser, viewed)
        older.click()
        wait_for("the older one", lambda: older.get_attribute("aria-current") == "true" and picture(browser), 30)
        browser.find_element(By.ID, "player-play").click()
        wait_for("the newer one", lambda: newer.get_attribute("aria-current") == "true", 30)
        assert older.get_attribute("aria-current") == "false"
        wait_for("its picture", lambda: picture(browser), 30)
        wait_for("its end", lambda: text(browser, "player-play") == "Play", 30)
        assert newer.get_attribute("aria-current") == "true"


def test_privacy_is_told_in_place_of_a_list(
    browser: Any, viewed: Gateway, film: tuple[Image.Image, Image.Image]
) -> None:
    look(browser, viewed)
    browser.find_element(By.ID, "recordings-close").click()
    privacy = browser.find_element(By.ID, "privacy")
    privacy.click()
    wait_for("privacy", lambda: privacy.text == "Private", 30)
    entry(browser).click()
    wait_for("the reason", lambda: "wants privacy" in text(browser, "recordings-problem"), 30)
    assert browser.find_elements(By.CSS_SELECTOR, "#recordings-list button") == []
    browser.find_element(By.ID, "recordings-close").click()
    privacy.click()
    wait_for("the end of the privacy", lambda: privacy.text == "Privacy", 30)


def test_person_who_may_only_watch_sees_what_there_is_and_why_it_is_not_played(
    browser: Any, viewed: Gateway, film: tuple[Image.Image, Image.Image]
) -> None:
    (listed,) = look(browser, viewed, mode="view")
    assert not listed.is_enabled()
    assert "may be driven" in text(browser, "recordings-state")
    # Nor does a page that was tampered with play it.
    browser.execute_script("arguments[0].disabled = false; arguments[0].click()", listed)
    wait_for("the refusal", lambda: "may be driven" in text(browser, "recordings-problem"), 30)
    assert picture(browser) is None


def test_recording_that_was_removed_meanwhile_says_so(
    browser: Any, viewed: Gateway, service: Service, film: tuple[Image.Image, Image.Image]
) -> None:
    (listed,) = look(browser, viewed)
    for kept in service.client.get("/v1/recordings").json()["recordings"]:
        assert service.client.delete(f"/v1/recordings/{kept['id']}").status_code == 200
    listed.click()
    wait_for("the reason", lambda: "was removed" in text(browser, "recordings-problem"), 30)
    assert browser.find_elements(By.CSS_SELECTOR, "#recordings-list button") == []
    browser.find_element(By.ID, "recordings-again").click()
    wait_for("an empty list", lambda: "Nothing that was recorded" in text(browser, "recordings-state"), 30)


def test_file_that_is_no_recording_is_not_played_and_breaks_nothing(
    browser: Any, viewed: Gateway, service: Service, film: tuple[Image.Image, Image.Image]
) -> None:
    (listed,) = look(browser, viewed)
    (path,) = (service.recorded / "recordings").glob("*.fbs")
    path.write_bytes(b"<script>alert(1)</script>")
    listed.click()
    wait_for("the reason", lambda: "cannot be shown" in text(browser, "recordings-problem"), 30)
    assert not browser.find_element(By.ID, "player").is_displayed()


def test_end_of_the_session_is_not_hidden_by_the_recordings(
    browser: Any, viewed: Gateway, film: tuple[Image.Image, Image.Image]
) -> None:
    look(browser, viewed)
    viewed.revoke(all=True)
    wait_for("the end", lambda: text(browser, "ended-title") == "Your session was revoked", 30)
    assert not browser.find_element(By.ID, "recordings").is_displayed()


def test_desktop_whose_service_says_no_recordings_says_that_it_does_not_answer(
    browser: Any, viewed: Gateway, service: Service
) -> None:
    opened(browser, viewed, "d2")  # its declaration asks for a recording
    entry(browser).click()
    wait_for("the reason", lambda: "does not answer" in text(browser, "recordings-problem"), 30)
