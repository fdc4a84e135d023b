"""The viewer in a real browser, through the real door."""

import shutil
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from deskyard.gateway.session import line
from deskyard.wire import session_requests
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.gateway.talkers import COLOUR, Talker
from tests.gateway.test_parts import STREAM
from tests.gateway.test_stopping import Desktop, asked
from tests.gateway.test_weakened import without
from tests.gateway.viewer_browser import PIXEL, chromium, complaints, fresh, opened, text, viewed_gateway
from tests.gateway.vnc_client import VncClient


@pytest.fixture(scope="module")
def talker() -> Talker:
    return Talker(lambda: 0)


@pytest.fixture(scope="module")
def viewed(viewer: Path, talker: Talker) -> Iterator[Gateway]:
    with viewed_gateway(viewer, talker) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def driver(viewed: Gateway) -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def browser(driver: Any, viewed: Gateway) -> Iterator[Any]:
    with fresh(driver, viewed):
        yield driver


def test_link_shows_desktop_and_terminal_and_leaves_no_ticket_behind(
    browser: Any, viewed: Gateway, talker: Talker
) -> None:
    granted = viewed.grant("d1")
    browser.get(granted["url"])
    wait_for("the picture", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    assert browser.current_url == f"{viewed.origin}/d/d1/"
    assert granted["ticket"] not in browser.execute_script("return location.href + document.referrer")
    browser.back()
    browser.forward()
    assert granted["ticket"] not in browser.current_url
    wait_for("the terminal", lambda: "hello from the terminal" in text(browser, "terminal-screen"), 30)
    assert text(browser, "desktop-state") == "connected"
    wait_for("the drive", lambda: text(browser, "mode") == "drive")
    assert "No Mission Control is connected" in text(browser, "chat")
    assert talker.size["columns"] > 60
    assert complaints(browser) == []


def test_keys_reach_desktop_and_terminal(browser: Any, viewed: Gateway, talker: Talker) -> None:
    opened(browser, viewed)
    wait_for("the drive", lambda: text(browser, "mode") == "drive")
    talker.keys.clear()
    canvas = browser.find_element(By.CSS_SELECTOR, "#desktop canvas")
    ActionChains(browser).click(canvas).send_keys("k").perform()
    wait_for("the key at the desktop", lambda: ord("k") in talker.keys)
    assert talker.pointers > 0
    wait_for("the terminal", lambda: text(browser, "terminal-state") == "connected", 30)
    browser.find_element(By.CSS_SELECTOR, "#terminal-screen textarea").send_keys("echo over here")
    wait_for("the echo", lambda: "echo over here" in text(browser, "terminal-screen").replace("\xa0", " "))
    assert "echo over here" in talker.typed


@pytest.mark.parametrize("honest", [True, False])
def test_view_only_page_has_no_terminal_and_none_of_its_input_arrives(
    browser: Any, viewed: Gateway, talker: Talker, honest: bool
) -> None:
    opened(browser, viewed, mode="view")
    if not honest:
        # A page that was tampered with: it believes that it drives.
        script = """
        const real = window.fetch;
        window.fetch = async (place, options) => {
          const answer = await real(place, options);
          if (place !== "session") return answer;
          return Response.json({ ...(await answer.json()), mode: "drive", drives: true });
        };
        """
        browser.execute_script(script)
        wait_for("the page to believe it", lambda: text(browser, "mode") == "drive", 30)
    talker.keys.clear()
    before = talker.pointers
    canvas = browser.find_element(By.CSS_SELECTOR, "#desktop canvas")
    ActionChains(browser).click(canvas).send_keys("k").perform()
    time.sleep(1)  # long enough for what must not come
    assert (talker.keys, talker.pointers) == ([], before)
    assert text(browser, "mode") == ("view only" if honest else "drive")
    assert not browser.find_element(By.ID, "terminal").is_displayed()


@pytest.mark.parametrize(("panel", "side"), [("chat", "width"), ("terminal", "height")])
def test_panels_are_resized_by_pointer_and_keys_and_stay_so(
    browser: Any, viewed: Gateway, panel: str, side: str
) -> None:
    def size() -> int:
        return int(browser.find_element(By.ID, panel).size[side])

    opened(browser, viewed)
    wait_for("the terminal", lambda: text(browser, "terminal-state") == "connected", 30)
    usual = size()
    bar = browser.find_element(By.ID, f"split-{panel}")
    x, y = (-60, 0) if side == "width" else (0, -60)
    ActionChains(browser).drag_and_drop_by_offset(bar, x, y).perform()
    assert (size(), bar.get_attribute("aria-valuenow")) == (usual + 60, str(usual + 60))
    bar.send_keys(Keys.ARROW_RIGHT if side == "width" else Keys.ARROW_DOWN)
    assert size() == usual + 40
    # What is left for the desktop is kept, however far one drags.
    bar.send_keys((Keys.ARROW_LEFT if side == "width" else Keys.ARROW_UP) * 80)
    assert bar.get_attribute("aria-valuenow") == bar.get_attribute("aria-valuemax") == str(size())
    bar.send_keys((Keys.ARROW_RIGHT if side == "width" else Keys.ARROW_DOWN) * 80)
    assert str(size()) == bar.get_attribute("aria-valuemin")
    kept = size()
    browser.refresh()
    wait_for("the picture", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    wait_for("the terminal", lambda: browser.find_element(By.ID, "terminal").is_displayed())
    assert size() == kept
    ActionChains(browser).double_click(browser.find_element(By.ID, f"split-{panel}")).perform()
    assert size() == usual
    assert complaints(browser) == []


def test_link_of_a_stream_shows_that_alone_until_it_is_over(browser: Any, viewed: Gateway, talker: Talker) -> None:
    opened(browser, viewed)
    wait_for("the drive", lambda: text(browser, "mode") == "drive")
    talker.keys.clear()
    before = len(viewed.desktops.requests)
    browser.get(f"{viewed.origin}/d/d1/#stream={STREAM}")
    wait_for("the picture", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    asked = [request.partition(" HTTP")[0] for request in viewed.desktops.requests[before:]]
    assert asked == [f"GET /v1/streams/{STREAM}"]
    assert (text(browser, "mode"), text(browser, "desktop-state")) == ("view only", "connected")
    for other in ("terminal", "chat", "privacy", "stop-agent", "change-driver", "toggle-chat", "toggle-terminal"):
        assert not browser.find_element(By.ID, other).is_displayed()
    canvas = browser.find_element(By.CSS_SELECTOR, "#desktop canvas")
    ActionChains(browser).click(canvas).send_keys("k").perform()
    # Its window is closed: the service ends the stream, and knows it no more.
    viewed.desktops.answer = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    try:
        viewed.desktops.hang_up()
        wait_for("the end", lambda: text(browser, "ended-title") == "This picture is over", 30)
    finally:
        viewed.desktops.answer = None
    assert talker.keys == []
    browser.find_element(By.CSS_SELECTOR, "#ended a").click()
    wait_for("the whole desktop", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    wait_for("its chat", browser.find_element(By.ID, "chat").is_displayed)
    assert browser.current_url == f"{viewed.origin}/d/d1/"


def test_link_of_a_stream_is_waited_for_while_a_person_wants_privacy(browser: Any, viewed: Gateway) -> None:
    _, cookie = viewed.session("d1", actor="person:bob")
    driving = VncClient(viewed, cookie)
    opened(browser, viewed, mode="view")
    browser.get(f"{viewed.origin}/d/d1/#stream={STREAM}")
    wait_for("the picture", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    given = {"Cookie": cookie, "Origin": viewed.origin}
    assert viewed.request("POST", "/d/d1/drive", '{"action": "hide"}', given)[0].status == 200
    before = len(viewed.desktops.requests)

    def refused() -> int:
        return sum(STREAM in request for request in viewed.desktops.requests[before:])

    viewed.desktops.answer = b"HTTP/1.1 423 Locked\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    try:
        viewed.desktops.hang_up()
        wait_for("more refusals than end a stream", lambda: refused() > 3, 60)
        assert text(browser, "private") == "hidden from programs"
        assert not browser.find_element(By.ID, "ended").is_displayed()
    finally:
        viewed.desktops.answer = None
    wait_for("the picture again", lambda: text(browser, "desktop-state") == "connected", 60)
    driving.opened.line.close()


@pytest.mark.parametrize("stream", ["abc", "../terminal", "abcDEF012_-9x"])
def test_link_that_names_no_stream_asks_no_desktop(browser: Any, viewed: Gateway, stream: str) -> None:
    opened(browser, viewed)
    before = len(viewed.desktops.requests)
    browser.get(f"{viewed.origin}/d/d1/#stream={stream}")
    wait_for("the end", lambda: text(browser, "ended-title") == "This picture is over", 30)
    assert viewed.desktops.requests[before:] == []


def test_take_over_and_hand_over_in_the_page(browser: Any, viewed: Gateway, talker: Talker) -> None:
    granted = viewed.grant("d1", actor="alice")
    _, cookie = viewed.session("d1", actor="person:bob")
    other = VncClient(viewed, cookie)
    browser.get(granted["url"])
    wait_for("the picture", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    wait_for("the word of the driver", lambda: text(browser, "mode") == "watching: bob drives", 30)
    canvas, button = (
        browser.find_element(By.CSS_SELECTOR, "#desktop canvas"),
        browser.find_element(By.ID, "change-driver"),
    )
    talker.keys.clear()
    ActionChains(browser).click(canvas).send_keys("k").perform()
    button.click()
    wait_for("the drive", lambda: text(browser, "mode") == "drive", 30)
    assert talker.keys == []
    ActionChains(browser).click(canvas).send_keys("j").perform()
    wait_for("the key at the desktop", lambda: ord("j") in talker.keys)
    headers = {"Cookie": cookie, "Origin": viewed.origin}
    assert viewed.request("POST", "/d/d1/drive", '{"action": "take"}', headers)[0].status == 200
    wait_for("the loss of the drive", lambda: "bob drives now" in text(browser, "notice"), 30)
    assert text(browser, "mode") == "watching: bob drives"
    button.click()
    wait_for("the drive again", lambda: text(browser, "change-driver") == "Hand over", 30)
    button.click()
    wait_for("the other to drive", lambda: text(browser, "mode") == "watching: bob drives", 30)
    assert other.status == 101
    assert complaints(browser) == []


def screen_status(gateway: Gateway, bearer: dict[str, str]) -> int:
    """What a program is answered that looks at the screen of d1."""
    return gateway.request("GET", "/d/d1/computer/v1/screen", None, bearer)[0].status


def test_who_may_drive_stops_the_agent_by_a_button_and_lets_it_go_on(
    browser: Any, viewed: Gateway, talker: Talker
) -> None:
    _, bearer = viewed.program()
    opened(browser, viewed)
    wait_for("the drive", lambda: text(browser, "mode") == "drive")
    button, badge = (browser.find_element(By.ID, name) for name in ("stop-agent", "stopped"))

    seen = partial(screen_status, viewed, bearer)
    assert (button.text, badge.is_displayed(), seen()) == ("Stop the agent", False, 200)
    assert "until a person lets it go on" in button.get_attribute("title")
    button.click()
    wait_for("the stop", lambda: button.text == "Let the agent go on")
    assert (badge.text, seen()) == ("agent shut out, and asked to stand still, by tester", 423)
    with Desktop(viewed.names["d1"]) as desktop:
        wait_for("the desktop to say so", lambda: badge.text == "agent stopped, by tester")
        talker.keys.clear()
        # The next key is for the desktop, not for the button.
        ActionChains(browser).send_keys(" ").perform()
        wait_for("the key at the desktop", lambda: ord(" ") in talker.keys)
        assert seen() == 423
        button.send_keys(Keys.ENTER)
        wait_for("the agent to go on", lambda: not badge.is_displayed() and not desktop.still)
        assert (button.text, seen()) == ("Stop the agent", 200)
        asked(viewed, "stop", "d1")
        wait_for("the host's stop", lambda: badge.text == "agent stopped, by operator")
        assert not button.is_enabled()
        assert "who runs the host" in button.get_attribute("title")
        asked(viewed, "go", "d1")
        wait_for("the end of it", lambda: button.is_enabled() and not badge.is_displayed())
        wait_for("nothing that stands", lambda: asked(viewed, "list") == [])
        desktop.shutdown()
    assert complaints(browser) == []


def test_who_watches_has_no_button_to_stop_the_agent_and_is_told(browser: Any, viewed: Gateway) -> None:
    opened(browser, viewed, mode="view")
    wait_for("the page to know its session", lambda: text(browser, "name") == "d1 · demo")
    badge = browser.find_element(By.ID, "stopped")
    with Desktop(viewed.names["d1"]) as desktop:
        asked(viewed, "stop", "d1")
        wait_for("the stop", lambda: badge.text == "agent stopped, by operator")
        assert not browser.find_element(By.ID, "stop-agent").is_displayed()
        desktop.shutdown()
    # Its desktop says nothing now: the page tells what is asked of it.
    asked(viewed, "go", "d1")
    wait_for("the word to go on", lambda: badge.text == "agent is being let go on, by operator")
    with Desktop(viewed.names["d1"]) as desktop:
        wait_for("nothing that stands", lambda: asked(viewed, "list") == [])
        wait_for("the end of it", lambda: not badge.is_displayed())
        desktop.shutdown()


@pytest.mark.parametrize(("desktop", "recorded"), [("d1", False), ("d2", True)])
@pytest.mark.parametrize("mode", ["drive", "view"])
def test_people_see_whether_a_desktop_is_recorded(
    browser: Any, viewed: Gateway, desktop: str, recorded: bool, mode: str
) -> None:
    opened(browser, viewed, desktop, mode=mode)
    badge = browser.find_element(By.ID, "recorded")
    wait_for("the page to know its session", lambda: text(browser, "name") == f"{desktop} · demo")
    assert badge.is_displayed() == recorded
    assert not recorded or badge.text == "recorded"


def test_who_drives_hides_the_desktop_from_programs_by_mouse_or_keyboard(
    browser: Any, viewed: Gateway, talker: Talker
) -> None:
    _, bearer = viewed.program()
    opened(browser, viewed)
    wait_for("the drive", lambda: text(browser, "mode") == "drive")
    button = browser.find_element(By.ID, "privacy")
    badge = browser.find_element(By.ID, "private")

    seen = partial(screen_status, viewed, bearer)
    assert (button.get_attribute("aria-pressed"), badge.is_displayed(), seen()) == ("false", False, 200)
    assert "Hide this desktop from programs" in button.get_attribute("title")
    talker.keys.clear()
    button.click()
    wait_for("privacy", lambda: button.get_attribute("aria-pressed") == "true", 30)
    assert (badge.text, seen()) == ("hidden from programs", 423)
    assert "Press to let programs in again" in button.get_attribute("title")
    # The next key is for the desktop, not for the button.
    ActionChains(browser).send_keys(" ").perform()
    wait_for("the key at the desktop", lambda: ord(" ") in talker.keys)
    assert (button.get_attribute("aria-pressed"), seen()) == ("true", 423)
    button.send_keys(Keys.ENTER)
    wait_for("the end of privacy", lambda: button.get_attribute("aria-pressed") == "false", 30)
    wait_for("the program sees again", lambda: seen() == 200)
    assert not badge.is_displayed()
    _, other = viewed.session("d1", actor="bob")
    watching = VncClient(viewed, other)
    headers = {"Cookie": other, "Origin": viewed.origin}
    assert viewed.request("POST", "/d/d1/drive", '{"action": "take"}', headers)[0].status == 200
    wait_for("who does not drive has no such button", lambda: not button.is_displayed(), 30)
    assert viewed.request("POST", "/d/d1/drive", '{"action": "hide"}', headers)[0].status == 200
    wait_for("who watches is told", lambda: badge.text == "hidden from programs", 30)
    assert watching.status == 101
    assert complaints(browser) == []


def test_revoked_session_says_so_and_does_not_come_back(browser: Any, viewed: Gateway) -> None:
    id = opened(browser, viewed)
    viewed.revoke(id)
    wait_for("the words", lambda: text(browser, "ended-title") == "Your session was revoked", 30)
    assert "Ask for a new link" in text(browser, "ended")


def test_picture_goes_on_while_the_gateway_reloads(browser: Any, viewed: Gateway, talker: Talker) -> None:
    opened(browser, viewed)
    wait_for("the drive", lambda: text(browser, "mode") == "drive")
    talker.keys.clear()
    before = len(talker.shared)
    viewed.reload()
    canvas = browser.find_element(By.CSS_SELECTOR, "#desktop canvas")
    ActionChains(browser).click(canvas).send_keys("r").perform()
    wait_for("the key at the desktop", lambda: ord("r") in talker.keys)
    assert len(talker.shared) == before  # the same connection
    assert text(browser, "desktop-state") == "connected"
    assert complaints(browser) == []


HOSTILE = {
    "clipboard": struct.pack(">Bxxxi", 3, 2**31 - 1) + b"A" * 1_000_000,
    "rectangle": struct.pack(">BxHHHHHi", 0, 1, 0, 0, 65535, 65535, 0) + bytes(1_000_000),
    "endless": struct.pack(">BxHHHHHi", 0, 65535, 0, 0, 1, 1, 0) + bytes(1_000_000),
    "resize": struct.pack(">BxHHHHHi", 0, 1, 0, 0, 65535, 65535, -223),
    "unknown": b"\x4d" * 1000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_page_survives_a_hostile_desktop(browser: Any, viewed: Gateway, talker: Talker, kind: str) -> None:
    talker.shared.clear()
    talker.hostile, talker.name = HOSTILE[kind], b"<img src=x onerror=document.body.dataset.owned=1>" * 50
    try:
        browser.get(viewed.grant("d1", routes=["desktop"])["url"])
        try:
            wait_for("the answer of the desktop", lambda: talker.shared)
        except AssertionError as late:
            shown = browser.execute_script("return `${location.href.split('#')[0]}: ${document.body.innerText}`")
            raise AssertionError(
                f"{late}; the page shows {shown[:1000]!r}, {browser.get_log('browser')[-5:]}"
            ) from late
        shown = "return document.getElementById('name')?.textContent"
        wait_for("a page that still works", lambda: browser.execute_script(shown) == "d1 · demo", 30)
        time.sleep(1)  # long enough for what must not come
        assert browser.execute_script("return document.body.dataset.owned ?? null") is None
        browser.find_element(By.ID, "toggle-chat").click()
        assert not browser.find_element(By.ID, "chat").is_displayed()
    finally:
        talker.hostile, talker.name = b"", b"played"
        talker.shared.clear()


# A page that shows the name that a desktop gives itself as if it were a part of the page.
TRUSTING = """
const Event = window.CustomEvent;
window.CustomEvent = class extends Event {
  constructor(type, options) {
    super(type, options);
    if (type === "desktopname") document.body.insertAdjacentHTML("beforeend", options.detail.name);
  }
};
"""


@pytest.mark.parametrize("policy", [True, False], ids=["with the policy", "without any"])
def test_40_page_that_trusts_a_desktop_is_owned_by_it_if_no_policy_holds(
    browser: Any, viewed: Gateway, talker: Talker, tmp_path: Path, policy: bool
) -> None:
    assert viewed.viewer is not None
    shutil.copytree(viewed.viewer, tmp_path / "assets")
    script = tmp_path / "assets/viewer.js"
    script.write_text(TRUSTING + script.read_text())
    talker.name = b"<img src=x onerror=document.body.dataset.owned=1>"
    weaken = str if policy else without("Content-Security-Policy")
    try:
        with run_gateway(Gateway(viewer=tmp_path / "assets", talk=talker, weaken=weaken)) as weak:
            browser.get(weak.grant("d1", routes=["desktop"])["url"])
            wait_for("the name", lambda: browser.execute_script("return document.querySelector('img[src=x]') !== null"))
            owned = "return document.body.dataset.owned ?? null"
            if policy:
                time.sleep(1)  # long enough for what must not come
                assert browser.execute_script(owned) is None
            else:
                wait_for("the desktop's script", lambda: browser.execute_script(owned) == "1")
    finally:
        talker.name = b"played"
        talker.shared.clear()


def test_desktop_that_goes_away_is_awaited(browser: Any, viewed: Gateway) -> None:
    opened(browser, viewed)
    viewed.desktops.hang_up()
    wait_for("the picture again", lambda: text(browser, "desktop-state") == "connected", 30)
    assert not browser.find_element(By.ID, "ended").is_displayed()


@pytest.mark.parametrize(
    ("how", "title"),
    [
        ("used", "This link was used already"),
        ("expired", "This link has expired"),
        ("revoked", "This link was revoked"),
        ("unknown", "This link is not known here"),
        ("none", "No desktop here"),
    ],
)
def test_link_that_opens_nothing_says_why(browser: Any, viewed: Gateway, how: str, title: str) -> None:
    granted = viewed.grant("d1", ttl=1 if how == "expired" else 600)
    url = granted["url"]
    if how == "expired":
        wait_for("the end of the ticket", lambda: time.time() > granted["ticket_expires"] + 1)
    elif how == "used":
        viewed.redeem(granted["ticket"])
    elif how == "revoked":
        viewed.revoke(granted["id"])
    else:
        url = f"{viewed.origin}/#" + ("A" * 43 if how == "unknown" else "")
    browser.get(url)
    wait_for("the words", lambda: text(browser, "title") == title, 30)
    assert browser.current_url == f"{viewed.origin}/"


def test_page_without_a_session_says_so(browser: Any, viewed: Gateway) -> None:
    browser.get(f"{viewed.origin}/d/d2/")
    wait_for("the words", lambda: text(browser, "ended-title") == "You have no session for this desktop", 30)


@pytest.fixture
def asleep(viewed: Gateway) -> Iterator[Callable[[], None]]:
    """Desktops that are off; what has them answer again."""

    def off() -> None:
        viewed.desktops.close()
        viewed.desktops.hang_up()

    def on() -> None:
        viewed.desktops = viewed.play_desktops()

    off()
    yield on
    off()
    on()


def wanted(gateway: Gateway, id: str) -> bool:
    """Whether the host reads that this session wants its desktop."""
    return any(session["wanted"] is not None for session in gateway.listing() if session["id"] == id)


def test_page_of_a_sleeping_desktop_asks_for_it_shows_each_stage_and_connects_by_itself(
    browser: Any, viewed: Gateway, asleep: Callable[[], None]
) -> None:
    granted = viewed.grant("d1", actor="ann")
    browser.get(granted["url"])
    wait_for("the stages", lambda: is_shown(browser, "waiting"))
    wait_for("the want", lambda: wanted(viewed, granted["id"]), 30)
    wait_for("the host's ear", lambda: stages(browser) == ["true", "true", "false"], 30)
    assert text(browser, "waiting-title") == "The desktop is asked to start"
    assert "ask who gave you the link" in text(browser, "waiting")
    for state, title, said in (
        ("no-room", "The desktop waits for room", "as soon as another desktop stops"),
        ("failed", "The desktop did not start", "could not start it"),
    ):
        line.ask(viewed.layout.admin_socket, session_requests.waking("d1", state))
        wait_for("what its host made of it", partial(is_titled, browser, title), 30)
        assert said in text(browser, "waking") and stages(browser) == ["true", "true", "false"]
    line.ask(viewed.layout.admin_socket, session_requests.waking("d1", "starts"))
    wait_for("the start", lambda: text(browser, "waiting-title") == "The desktop is starting", 30)
    assert stages(browser) == ["true", "true", "true"] and not is_shown(browser, "waking")
    assert "workspace." not in browser.execute_script("return document.body.innerText")
    asleep()
    wait_for("the picture", lambda: browser.execute_script(PIXEL) == list(COLOUR), 60)
    wait_for("the end of the stages", lambda: not is_shown(browser, "waiting"), 30)
    wait_for("the end of the want", lambda: not wanted(viewed, granted["id"]))


def test_page_says_in_words_where_its_machine_is_and_since_when(
    browser: Any, viewed: Gateway, asleep: Callable[[], None]
) -> None:
    at = int(time.time()) - 3600
    granted = viewed.grant("d2", mode="view")
    browser.get(granted["url"])
    wait_for("the stages", lambda: is_shown(browser, "waiting"))
    assert not is_shown(browser, "state")
    moment = "return new Date(arguments[0] * 1000).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'})"
    since = browser.execute_script(moment, at)
    for state, said in (
        ("stopping", "it shuts down."),
        ("stopped", "it is off."),
        ("io-error", "its host has no room"),
    ):
        line.ask(viewed.layout.admin_socket, session_requests.stages({"d2": (state, at)}))
        wait_for("the state", partial(says, browser, "state", said), 30)
        assert text(browser, "state").startswith(f"Since {since}: ")
        assert text(browser, "waiting-title") == "The desktop does not run"
    line.ask(viewed.layout.admin_socket, session_requests.stages({"d2": ("booting", at)}))
    wait_for("the start", partial(is_titled, browser, "The desktop is starting"), 30)
    assert not is_shown(browser, "state")


def test_page_that_was_left_open_wants_the_desktop_when_somebody_comes_back_to_it(
    browser: Any, viewed: Gateway, asleep: Callable[[], None]
) -> None:
    asleep()
    id = opened(browser, viewed)
    viewed.desktops.close()
    viewed.desktops.hang_up()
    button = browser.find_element(By.ID, "start")
    wait_for("the way to start it", button.is_displayed)
    assert (text(browser, "waiting-title"), wanted(viewed, id)) == ("The desktop does not run", False)
    button.click()
    wait_for("the want", lambda: wanted(viewed, id), 30)
    assert not button.is_displayed()


def test_page_that_only_watches_says_whom_to_ask_and_wants_nothing(
    browser: Any, viewed: Gateway, asleep: Callable[[], None]
) -> None:
    granted = viewed.grant("d1", mode="view")
    browser.get(granted["url"])
    wait_for("the stages", lambda: is_shown(browser, "waiting"))
    assert "You may only watch" in text(browser, "waiting")
    assert not browser.find_element(By.ID, "start").is_displayed()
    assert not wanted(viewed, granted["id"])


def test_stages_go_on_over_a_restart_of_the_session_service(
    browser: Any, viewed: Gateway, asleep: Callable[[], None]
) -> None:
    granted = viewed.grant("d1")
    browser.get(granted["url"])
    wait_for("the want", lambda: wanted(viewed, granted["id"]))
    service = viewed.processes[0]
    service.kill()
    service.wait(10)
    viewed.processes[0] = viewed.start_service()
    wait_for("the want, asked for again", lambda: wanted(viewed, granted["id"]))


def is_shown(browser: Any, id: str) -> bool:
    """Whether the page has this part, and shows it; a link leads to the page by another."""
    script = "const part = document.getElementById(arguments[0]); return part !== null && part.checkVisibility()"
    return bool(browser.execute_script(script, id))


def says(browser: Any, id: str, words: str) -> bool:
    """Whether this part of the page is shown and says so."""
    return is_shown(browser, id) and words in text(browser, id)


def is_titled(browser: Any, title: str) -> bool:
    """Whether the page says so of the desktop that it waits for."""
    return text(browser, "waiting-title") == title


def stages(browser: Any) -> list[str | None]:
    """Whether each stage is reached."""
    return [stage.get_attribute("data-done") for stage in browser.find_elements(By.CSS_SELECTOR, "#waiting li")]
