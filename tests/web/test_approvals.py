"""The inbox of approvals: what waits, who wants it and how long, and an answer that a passkey signs."""

import threading

import pytest

from tests.web.browser import Browser
from tests.web.estate import Estate, ago
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

DESK = "team-01.desk-1"
TARGET = "api.stripe.com:443"


def test_what_waits_comes_without_a_reload_and_says_who_what_and_how_long(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/approvals")
    browser.sees("Nothing waits for you")
    found = estate.approval(DESK, "api.stripe.com")
    browser.sees("api.stripe.com:443")
    browser.sees("1 held")
    assert DESK in browser.find("main li").text
    estate.approval(DESK, "api.stripe.com", id=found["id"], held=0, heldUntil=None)
    browser.sees("the next try passes if you allow it")
    answered = {"state": "refused", "answer": "refuse", "decidedBy": "person:Ada", "reason": "not this shop"}
    estate.approval(DESK, "api.stripe.com", id=found["id"], **answered, decidedAt=ago())
    browser.sees("refuse, by Ada: not this shop")


def test_what_was_answered_while_no_event_was_heard_waits_no_more(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/approvals?state=waiting")
    found = estate.approval(DESK, "api.stripe.com")
    browser.sees("api.stripe.com:443")
    estate.approvals[found["id"]] |= {"state": "lapsed"}
    estate.tell("reset", {})
    browser.sees("Nothing is waiting")


@pytest.mark.parametrize(("button", "answer"), [("Allow once", "once"), ("15 minutes", "15m"), ("Always", "always")])
def test_an_answer_is_signed_by_name_port_and_desktop(
    browser: Browser, estate: Estate, server: StandIn, button: str, answer: str
) -> None:
    estate.fill(workspaces=1, desktops=1)
    found = estate.approval(DESK, "api.stripe.com")
    browser.open("/approvals")
    browser.click(button)
    browser.sees("Reason, for the audit")
    browser.find("dialog .primary").click()
    browser.wait("the dialog is gone", lambda: browser.all("dialog") == [])
    aim = f"{found['id']} {DESK} api.stripe.com:443 {answer}"
    assert server.asked("POST", "/api/intents") == [{"kind": "approval.decide", "target": aim}]
    (sent,) = server.asked("POST", f"/api/approvals/{found['id']}/decide")
    assert (sent["answer"], sent["intent"]["intent"]["target"]) == (answer, aim)


def test_answer_is_said_to_be_given_once_it_is_and_its_failure_is_shown(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.approval(DESK, "api.stripe.com")
    browser.open("/approvals")

    def answered(end: dict[str, object]) -> None:
        known = len(estate.operations)
        browser.click("Allow once")
        browser.find("dialog .primary").click()
        browser.wait("it is asked", lambda: len(estate.operations) > known)
        browser.wait("the dialog is gone", lambda: browser.all("dialog") == [])
        assert f"{TARGET}: allowed" not in said()
        estate.advance(next(reversed(estate.operations)), endedAt=ago(), **end)

    def said() -> str:
        found: str = browser.script("return document.body.textContent")
        return found

    gone = {"field": "approval", "value": "api.stripe.com", "reason": "waits no more", "remedy": "Let it try again"}
    answered({"state": "failed", "problem": gone})
    browser.sees("waits no more")
    assert f"{TARGET}: allowed" not in said()
    answered({"state": "done"})
    browser.wait("it is told", lambda: f"{TARGET}: allowed" in said())
    browser.sees_no("waits no more")


def test_who_leaves_it_while_it_is_signed_answers_nothing(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    found = estate.approval(DESK, "api.stripe.com")
    path = f"/api/approvals/{found['id']}/decide"
    browser.open("/approvals")
    asked = server.held["/api/intents"] = threading.Event()
    browser.click("Allow once")
    browser.find("dialog .primary").click()
    browser.wait("it is about to be signed", lambda: server.asked("POST", "/api/intents"))
    browser.click("Leave as it is")
    browser.wait("the dialog is gone", lambda: browser.all("dialog") == [])
    asked.set()
    browser.click("Always")
    browser.find("dialog .primary").click()
    browser.wait("this is sent", lambda: server.asked("POST", path))
    assert [sent["answer"] for sent in server.asked("POST", path)] == ["always"]


def test_a_refusal_needs_its_reason_and_without_a_passkey_nothing_is_answered(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    found = estate.approval(DESK, "api.stripe.com")
    path = f"/api/approvals/{found['id']}/decide"
    browser.open("/approvals")
    browser.click("Refuse")
    browser.find("dialog .danger").click()
    assert server.asked("POST", "/api/intents") == []
    browser.type("dialog input", "not this shop")
    browser.driver.set_user_verified(False)
    try:
        browser.find("dialog .danger").click()
        browser.sees("no passkey answered")
    finally:
        browser.driver.set_user_verified(True)
    assert server.asked("POST", path) == []
    browser.find("dialog .danger").click()
    browser.wait("the dialog is gone", lambda: browser.all("dialog") == [])
    assert [sent["reason"] for sent in server.asked("POST", path)] == ["not this shop"]
