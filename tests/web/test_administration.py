"""What an admin does on the pages: alerts, who is told of them, keys, sessions, and whether the audit holds."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.web.administration import SECRET
from tests.web.browser import Browser
from tests.web.estate import HOOK, Estate
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

ALERT = "A desktop is broken: team-02.desk-7"


def buttons(browser: Browser, selector: str = "main button") -> list[str]:
    """What the buttons say."""
    texts = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
    return [" ".join(text.split()) for text in browser.script(texts, selector)]


def test_an_alert_is_acknowledged_and_says_by_whom(browser: Browser, estate: Estate, server: StandIn) -> None:
    browser.open("/alerts")
    browser.sees("Next: ./inv desktop.health")
    browser.click("Acknowledge")
    browser.sees("looked after by Ada")
    assert server.asked("POST", "/api/alerts/al-1/acknowledge") == [{}]
    # It stays open, and may be silenced still.
    row = f"[aria-label='{ALERT}'] button"
    assert buttons(browser, row) == ["Silence for 8 hours"]


def test_an_alert_is_silenced_for_eight_hours(browser: Browser, estate: Estate, server: StandIn) -> None:
    browser.open("/alerts")
    browser.click("Silence for 8 hours")
    browser.sees(", silenced")
    (asked,) = server.asked("POST", "/api/alerts/al-1/silence")
    until = datetime.fromisoformat(asked["until"])
    assert abs(until - datetime.now(UTC) - timedelta(hours=8)) < timedelta(minutes=5)
    assert buttons(browser, f"[aria-label='{ALERT}'] button") == ["Acknowledge"]


def test_who_may_only_look_says_nothing_of_an_alert(browser: Browser, estate: Estate) -> None:
    estate.role = "viewer"
    browser.open("/alerts")
    browser.sees("Next: ./inv desktop.health")
    assert not browser.all(f"[aria-label='{ALERT}'] button")
    assert "Who is told" not in browser.text()


def test_a_webhook_is_made_and_its_secret_shown_this_once(browser: Browser, estate: Estate, server: StandIn) -> None:
    address = "https://hooks.example.org/other"
    browser.open("/alerts")
    browser.sees(HOOK)
    browser.type("input[type=url]", address)
    browser.click("Tell this address")
    browser.sees(SECRET)
    browser.sees(address)
    assert server.asked("POST", "/api/webhooks") == [{"url": address}]
    assert browser.find("input[type=url]").get_property("value") == ""
    browser.open("/alerts")
    browser.sees(address)
    assert SECRET not in browser.text()


def test_an_address_that_is_refused_says_why_and_stays_to_be_corrected(browser: Browser, estate: Estate) -> None:
    browser.open("/alerts")
    browser.type("input[type=url]", "https://10.0.0.1/hook")
    browser.click("Tell this address")
    browser.sees("is in a private network")
    browser.sees("./inv control.up --webhook-networks")
    assert browser.find("input[type=url]").get_property("value") == "https://10.0.0.1/hook"
    assert len(estate.hooks) == 2


def test_a_webhook_is_tested_and_removed(browser: Browser, estate: Estate, server: StandIn) -> None:
    browser.open("/alerts")
    browser.click(f"Test {HOOK}")
    browser.sees(f"A test message is on its way to {HOOK}")
    assert server.asked("POST", "/api/webhooks/wh-1/test") == [{}]
    browser.click(f"Remove {HOOK}")
    browser.sees_no(HOOK)
    browser.sees("mailto:ann@example.org")
    assert len(server.asked("DELETE", "/api/webhooks/wh-1")) == 1


def test_the_audit_is_verified_and_says_what_it_found(browser: Browser, estate: Estate) -> None:
    browser.open("/audit")
    browser.click("Verify the chain")
    browser.sees("Whole: 240 entries")
    estate.audit_problem = "line 121 was changed"
    browser.click("Verify the chain")
    browser.sees("line 121 was changed")
    assert "Whole: 240 entries" not in browser.text()


def test_a_key_is_revoked_once_that_was_said_twice(browser: Browser, estate: Estate, server: StandIn) -> None:
    browser.open("/settings")
    browser.click("Revoke ci")
    browser.sees("Whatever uses it is refused from now on.")
    browser.click("Leave as it is")
    browser.sees_no("Whatever uses it is refused from now on.")
    assert server.asked("DELETE", "/api/keys/key-1") == []
    browser.click("Revoke ci")
    browser.click("Revoke it")
    browser.sees("revoked")
    assert len(server.asked("DELETE", "/api/keys/key-1")) == 1
    browser.wait("it is not offered again", lambda: "Revoke ci" not in buttons(browser))


def test_another_session_is_ended_and_ones_own_is_not_offered(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    browser.open("/settings")
    browser.sees("this one")
    assert [each for each in buttons(browser) if each.startswith("End ")] == ["End the session with Firefox"]
    browser.click("End the session with Firefox")
    browser.wait("it is gone", lambda: "End the session with Firefox" not in buttons(browser))
    assert len(server.asked("DELETE", "/api/sessions/s-2")) == 1
    browser.sees("this one")
