"""The chat on a desktop's page in a real browser: who may drive reads and writes it; what is said there stays words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.gateway.mission import Mission, message, mission_at, talk_of
from tests.gateway.support import Gateway, wait_for
from tests.gateway.talkers import Talker
from tests.gateway.viewer_browser import chromium, complaints, fresh, opened, text, viewed_gateway


@pytest.fixture(scope="module")
def viewed(viewer: Path) -> Iterator[Gateway]:
    with viewed_gateway(viewer, Talker(lambda: 0)) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def driver(viewed: Gateway) -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def browser(driver: Any, viewed: Gateway) -> Iterator[Any]:
    with fresh(driver, viewed):
        yield driver


@pytest.fixture
def mission(viewed: Gateway) -> Iterator[Mission]:
    viewed.revoke(all=True)
    with mission_at(viewed.layout.chat_socket) as found:
        yield found


def messages(browser: Any) -> list[str]:
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll('#chat-messages article')].map((each) => each.innerText)"
    )
    return found


def is_shown(browser: Any, id: str) -> bool:
    return bool(browser.find_element(By.ID, id).is_displayed())


def write(browser: Any, words: str) -> None:
    browser.find_element(By.ID, "chat-text").send_keys(words, Keys.ENTER)


def written(browser: Any) -> str:
    found: str = browser.find_element(By.ID, "chat-text").get_property("value")
    return found


# The titles under which the invitation went away.
INVITATION_HIDDEN = """
const invitation = document.getElementById("chat-empty");
window.hidden = [];
new MutationObserver(() => window.hidden.push(document.getElementById("chat-title").textContent))
  .observe(invitation, { attributes: true, attributeFilter: ["hidden"] });
"""
ASKED = message("1", "Grüße an alle\nheute noch", "person")


def test_what_is_said_and_answered_is_shown_as_it_grows(browser: Any, viewed: Gateway, mission: Mission) -> None:
    opened(browser, viewed)
    mission.opens("d1")
    wait_for("the words", lambda: "One moment" in text(browser, "chat"))
    mission.shows("d1", talk_of())
    wait_for("the way to begin", lambda: "Nothing was said yet" in text(browser, "chat"))
    tool = {"name": "exec", "state": "running", "arguments": '{"command": "ls"}', "output": ""}
    begun = talk_of(ASKED, message("2", "I look", state="streaming", tools=[tool]))
    mission.shows("d1", begun, talk_of())
    wait_for("both", lambda: len(messages(browser)) == 2)
    assert "Grüße an alle\nheute noch" in messages(browser)[0] and "Ada" in messages(browser)[0]
    assert "person:" not in messages(browser)[0]
    assert "answering" in messages(browser)[1] and "exec · running" in messages(browser)[1]
    assert (text(browser, "chat-title"), is_shown(browser, "chat-empty")) == ("A task", False)
    # What a person selects in a message is not lost as the next one grows.
    browser.execute_script("getSelection().selectAllChildren(document.querySelector('#chat-messages article .text'))")
    ended = talk_of(ASKED, message("2", "I look at it, and it is well."))
    mission.shows("d1", ended, begun)
    wait_for("the end", lambda: "it is well" in messages(browser)[1] and "answering" not in messages(browser)[1])
    assert browser.execute_script("return getSelection().toString()").strip() == "Grüße an alle\nheute noch"
    assert complaints(browser) == []


def test_a_message_is_sent_and_its_turn_is_stopped(browser: Any, viewed: Gateway, mission: Mission) -> None:
    opened(browser, viewed, actor="person:Ada")
    mission.shows("d1", talk_of(message("0", "before")))
    wait_for("what was said", lambda: len(messages(browser)) == 1)
    write(browser, "Grüße, 世界")
    wish = mission.wish()
    assert (wish["message"], wish["conversation"], wish["actor"]) == ("Grüße, 世界", "cv_1", "person:Ada")
    # It stands there until Mission Control has it.
    assert written(browser) == "Grüße, 世界"
    mission.says(answer=wish["id"], result={"conversation": "cv_1"})
    wait_for("an empty line", lambda: written(browser) == "")
    assert not is_shown(browser, "chat-stop")
    before = talk_of(message("0", "before"))
    mission.shows("d1", talk_of(message("0", "before"), message("1", "Grüße", "person", state="sent")), before)
    wait_for("the way to stop it", lambda: is_shown(browser, "chat-stop"))
    browser.find_element(By.ID, "chat-stop").click()
    stop = mission.wish()
    assert (stop["message"], stop["conversation"]) == (None, "cv_1")
    mission.says(answer=stop["id"], error={"field": "turn", "reason": "is over already", "remedy": "nothing is to do"})
    wait_for("the refusal", lambda: text(browser, "chat-problem") == "turn is over already: nothing is to do")


def test_a_message_that_was_not_answered_is_sent_again_under_its_name(
    browser: Any, viewed: Gateway, mission: Mission
) -> None:
    opened(browser, viewed)
    wait_for("the way to write", lambda: is_shown(browser, "chat-form"))
    write(browser, "once")
    first = mission.wish()
    mission.says(answer=first["id"], error={"field": "queue", "reason": "is full", "remedy": "wait"})
    wait_for("the refusal", lambda: is_shown(browser, "chat-problem"))
    assert written(browser) == "once"
    browser.find_element(By.ID, "chat-send").click()
    again = mission.wish()
    assert again["id"] == first["id"]
    mission.says(answer=again["id"], result={"conversation": "cv_1"})
    wait_for("an empty line", lambda: written(browser) == "" and not is_shown(browser, "chat-problem"))
    write(browser, "once")
    assert mission.wish()["id"] != first["id"]


def test_another_conversation_is_begun(browser: Any, viewed: Gateway, mission: Mission) -> None:
    opened(browser, viewed)
    old = talk_of(ASKED, message("2", "done"))
    mission.shows("d1", old)
    wait_for("what was said", lambda: len(messages(browser)) == 2)
    browser.find_element(By.ID, "chat-new").click()
    assert messages(browser) == [] and "Nothing was said yet" in text(browser, "chat")
    assert text(browser, "chat-title") == "New conversation"
    browser.execute_script(INVITATION_HIDDEN)
    # The agent goes on in the old one meanwhile: no news of it is shown, nor takes the invitation away.
    gone_on = talk_of(ASKED, message("2", "done, and more"))
    mission.shows("d1", gone_on, old)
    write(browser, "anew")
    wish = mission.wish()
    assert wish["conversation"] is None
    new = talk_of(message("9", "anew", "person"), conversation="cv_2", title="anew")
    mission.shows("d1", new, gone_on)
    mission.says(answer=wish["id"], result={"conversation": "cv_2"})
    wait_for("the new one", lambda: text(browser, "chat-title") == "anew" and len(messages(browser)) == 1)
    assert set(browser.execute_script("return window.hidden")) == {"anew"}
    wait_for("an empty line", lambda: written(browser) == "")
    write(browser, "more")
    assert mission.wish()["conversation"] == "cv_2"


def test_a_page_says_when_mission_control_is_away_and_goes_on_after(browser: Any, viewed: Gateway) -> None:
    viewed.revoke(all=True)
    opened(browser, viewed)
    wait_for("the words", lambda: "No Mission Control is connected" in text(browser, "chat"))
    assert not is_shown(browser, "chat-form")
    with mission_at(viewed.layout.chat_socket) as mission:
        mission.shows("d1", talk_of(ASKED))
        wait_for("what was said", lambda: len(messages(browser)) == 1 and is_shown(browser, "chat-form"))
    wait_for("the words again", lambda: "No Mission Control is connected" in text(browser, "chat"))
    assert len(messages(browser)) == 1 and not is_shown(browser, "chat-form")


def test_a_panel_that_nobody_sees_is_sent_nothing(browser: Any, viewed: Gateway, mission: Mission) -> None:
    opened(browser, viewed)
    mission.opens("d1")
    browser.find_element(By.ID, "toggle-chat").click()
    mission.opens()
    browser.find_element(By.ID, "toggle-chat").click()
    mission.opens("d1")
    mission.shows("d1", talk_of(ASKED))
    wait_for("what was said", lambda: len(messages(browser)) == 1)


def test_on_a_phone_the_desktop_comes_first_and_the_chat_has_the_whole_width(
    browser: Any, viewed: Gateway, mission: Mission
) -> None:
    size = browser.get_window_size()
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        opened(browser, viewed)
        assert not is_shown(browser, "chat")
        assert browser.find_element(By.ID, "desktop").size["width"] == 390
        browser.find_element(By.ID, "toggle-chat").click()
        mission.opens("d1")
        assert browser.find_element(By.ID, "chat").size["width"] == 390
        mission.shows("d1", talk_of(ASKED))
        wait_for("what was said", lambda: len(messages(browser)) == 1)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.set_window_size(size["width"], size["height"])


def test_who_only_watches_is_told_that_there_is_no_chat(browser: Any, viewed: Gateway, mission: Mission) -> None:
    opened(browser, viewed, mode="view")
    wait_for("the words", lambda: "This link may only watch" in text(browser, "chat"))
    assert not is_shown(browser, "chat-form")
    assert complaints(browser) == []


HOSTILE = "<img src=x onerror=document.body.dataset.owned=1><script>document.body.dataset.owned=1</script>"


@pytest.mark.parametrize("trusting", [False, True])
def test_nothing_that_an_agent_says_is_a_part_of_the_page(
    browser: Any, viewed: Gateway, mission: Mission, trusting: bool
) -> None:
    opened(browser, viewed)
    if trusting:
        # A page that takes words for its own: the test would notice it.
        browser.execute_script(
            "Object.defineProperty(Node.prototype, 'textContent', {set(text) { this.innerHTML = text; }})"
        )
    tool = {"name": HOSTILE, "state": HOSTILE, "arguments": HOSTILE, "output": HOSTILE}
    said = message(
        HOSTILE, HOSTILE, author=HOSTILE, tools=[tool], questions=[{"asked": HOSTILE, "state": "open"}],
        problem={"field": HOSTILE, "value": HOSTILE, "reason": HOSTILE, "remedy": HOSTILE},
    )  # fmt: skip
    mission.shows("d1", talk_of(said, title=HOSTILE))
    wait_for("the message", lambda: browser.execute_script("return document.querySelector('#chat-messages article')"))
    pictures = browser.execute_script("return document.querySelectorAll('#chat img, #chat script').length")
    assert (pictures > 0) == trusting


def test_what_is_too_long_for_a_page_is_said_before_it_is_sent(browser: Any, viewed: Gateway, mission: Mission) -> None:
    opened(browser, viewed)
    wait_for("the way to write", lambda: is_shown(browser, "chat-form"))
    browser.execute_script("document.getElementById('chat-text').value = '世'.repeat(3000)")
    browser.find_element(By.ID, "chat-send").click()
    wait_for("the refusal", lambda: "too long" in text(browser, "chat-problem"))
    assert written(browser) == "世" * 3000
