"""A recording as one page: it plays in a real browser, shows what was seen, and loads nothing from anywhere."""

import base64
import io
from collections.abc import Iterator
from typing import Any

import pytest
from deskyard_sdk.replay import write_page
from PIL import Image
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.requirements import need_programs
from tests.unit.sdk.test_replay import COLOURS, SIZE, record
from tests.web.conftest import chromium

pytestmark = pytest.mark.sampled

SECONDS = 60.0


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page of a recording of two segments, in Chromium."""
    need_programs("chromium", "chromedriver")
    folder = tmp_path_factory.mktemp("recording")
    record(folder)
    with chromium() as driver:
        driver.get(write_page(folder, folder / "recording.html").as_uri())
        yield driver


def until(page: Any, frame: int) -> Image.Image:
    """The canvas, once it shows that frame."""
    ready = f"return document.getElementById('screen').dataset.frame === '{frame}'"
    WebDriverWait(page, SECONDS, 0.05).until(lambda driver: driver.execute_script(ready))
    data = page.execute_script("return document.getElementById('screen').toDataURL('image/png')")
    return Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))).convert("RGB")


def seek(page: Any, seconds: float) -> None:
    """Move the time line, as a person does."""
    line = page.find_element(By.ID, "seek")
    page.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", line, seconds
    )


def test_each_frame_is_shown_whichever_way_it_is_reached(page: Any) -> None:
    for frame in (3, 0, 2, 1, 0, 3):
        seek(page, [0.0, 1.0, 10.0, 11.0][frame])
        picture = until(page, frame)
        assert picture.size == SIZE
        for at, colour in COLOURS[frame].items():
            shown = picture.getpixel(at)
            assert isinstance(shown, tuple)
            assert all(abs(seen - meant) <= 6 for seen, meant in zip(shown, colour, strict=True)), (frame, at, shown)


def test_actions_are_marks_that_lead_there(page: Any) -> None:
    marks = page.find_elements(By.CSS_SELECTOR, "#marks button")
    assert [mark.get_attribute("class") for mark in marks] == ["agent", "failed agent", "person"]
    assert "<b>agent" in page.find_element(By.ID, "actions").text, "what a desktop says is text"
    seek(page, 0)
    until(page, 0)
    page.execute_script("arguments[0].click()", marks[2])
    until(page, 3)
    assert page.find_element(By.ID, "time").text.startswith("11.0 s of 11.0 s")


def test_it_plays_to_its_end_and_passes_over_what_stands_still(page: Any) -> None:
    seek(page, 0)
    until(page, 0)
    page.execute_script("document.getElementById('speed').value = '16'")
    page.find_element(By.ID, "play").click()
    until(page, 3)
    WebDriverWait(page, SECONDS, 0.05).until(lambda driver: driver.find_element(By.ID, "play").text == "Play")


def test_it_asks_for_nothing_and_its_policy_forbids_all_but_itself(page: Any) -> None:
    asked = page.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert asked == []
    source = page.page_source
    assert "default-src 'none'; script-src 'sha256-" in source and "unsafe" not in source
    assert [line["message"] for line in page.get_log("browser") if line["level"] == "SEVERE"] == []
