"""Rules in the pages: what is signed, what two persons say, price and quota before, and what is kept how long."""

from typing import Any

import pytest

from tests.web.browser import Browser, Keys
from tests.web.estate import Estate, ago
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

DESK = "team-01.desk-1"


def test_an_admin_signs_all_of_a_rule(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=2, desktops=2)
    browser.open("/settings")
    browser.sees("role admin")
    browser.find("input[value=operator]").click()
    browser.find("input[value=Ada]").click()
    browser.find("input[value='desktop.create']").click()
    browser.find("input[value='desktop.destroy']").click()
    browser.click("Set the rule, signed by my passkey")
    path = "/api/approval-rules"
    browser.wait("the rule is sent", lambda: server.asked("POST", path) != [])
    target = 'team-01 persons=2 roles=["operator"] people=["Ada"] keys=[] operations='
    target += '["desktop.create","desktop.destroy"]'
    assert server.asked("POST", "/api/intents") == [{"kind": "approval-rule.set", "target": target}]
    (sent,) = server.asked("POST", path)
    assert (sent["persons"], sent["people"], sent["intent"]["intent"]["target"]) == (2, ["Ada"], target)
    browser.click("Remove the rule of team-01")
    browser.wait("the removal is sent", lambda: server.asked("DELETE", f"{path}/team-01") != [])
    assert server.asked("POST", "/api/intents")[1] == {"kind": "approval-rule.remove", "target": "team-01"}


def test_what_another_admin_signed_is_shown_and_signed_too(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=2, desktops=2)
    browser.open("/settings")
    browser.sees("Eve signed for team-01: one: role admin, Ada.")
    browser.click("Sign it too as Eve did for team-01")
    browser.wait("the same is sent", lambda: server.asked("POST", "/api/approval-rules") != [])
    # One that is left without operations reads as it did before there were any.
    target = 'team-01 persons=1 roles=["admin"] people=["Ada"] keys=[]'
    assert server.asked("POST", "/api/intents") == [{"kind": "approval-rule.set", "target": target}]
    (operation,) = browser.wait("it is admitted", lambda: list(estate.operations))
    estate.advance(operation, state="done", endedAt=ago(), result={"rule": target, "signatures": 1, "needed": 2})
    said = "The rule of team-01 is changed once another admin signs the same"
    browser.wait("it is said", lambda: browser.find("[role=status][aria-live]").get_attribute("textContent") == said)


def test_a_first_answer_of_two_is_shown_as_it_comes(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    found = estate.approval(DESK, "api.stripe.com", needed=2)
    browser.open("/approvals")
    browser.sees("2 persons have to say the same")
    estate.approval(
        DESK, "api.stripe.com", id=found["id"], answers=[{"actor": "person:Eve", "answer": "once", "at": ago()}]
    )
    browser.sees("1 of 2 said once: Eve")
    browser.click("Always")
    browser.sees("another person has to say the same")
    browser.click("Leave as it is")
    browser.click("Allow once")
    browser.sees("Reason, for the audit")
    assert "another person" not in browser.find("dialog").text


def test_price_and_quota_stand_there_before_a_desktop_is_asked_for(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/new")
    browser.sees("Price: 0.25 an hour while it runs, at most 6.00 a day")
    browser.sees("1 vCPU, 2 GiB memory, 20 GiB disk, 10 GiB home")
    for seen in ("Desktops: 16 of 20 with it", "vCPU: 21 of 22 with it", "Disks: 480 GiB of 500 GiB with it"):
        browser.sees(seen)
    browser.sees_no("which is too much")
    browser.find("input[value=pro]").click()
    for bound in ("vCPU: 24 of 22", "Memory: 68 GiB of 64 GiB", "Disks: 530 GiB of 500 GiB"):
        browser.sees(f"{bound} with it, which is too much")


def test_admin_bounds_processors_and_disks_beside_the_rest(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.role = "admin"
    browser.open("/settings")
    browser.sees("450 GiB of 500 GiB")
    browser.choose("select[aria-label='Whose quota']", "workspace:team-01")
    for name, amount in (("Most vCPU", "8"), ("Most memory in GiB", "16"), ("Most of disks in GiB", "200")):
        browser.type(f"input[aria-label='{name}']", amount)
    browser.click("Set the quota")
    # What was not changed stays.
    assert browser.find("input[aria-label='Most desktops']").get_property("value") == "20"
    wanted = {"desktops": 20, "vcpus": 8, "memoryMib": 16 * 1024, "diskGib": 200, "microsPerDay": None}
    path = "/api/quotas/workspace:team-01"
    browser.wait("it is sent", lambda: server.asked("PUT", path) == [wanted])
    assert "does not hold" not in browser.text()


def test_quota_that_somebody_changed_since_the_page_was_opened_is_not_overwritten(
    browser: Browser, estate: Estate
) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.role = "admin"
    browser.open("/settings")
    browser.sees("450 GiB of 500 GiB")
    estate.changed_at = ago()
    browser.choose("select[aria-label='Whose quota']", "workspace:team-01")
    browser.type("input[aria-label='Most vCPU']", "8")
    browser.click("Set the quota")
    browser.sees("does not hold: it was changed at")


BROKEN = "input[aria-label='A desktop is broken: in force']"
SLOW = "input[aria-label='A desktop does not become ready: minutes']"


def test_rule_of_alerts_that_somebody_changed_since_the_page_was_opened_is_not_overwritten(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.role = "admin"
    browser.open("/alerts")
    # Each step is a change of its own.
    browser.find(SLOW).send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP)
    browser.wait("each is sent", lambda: len(server.asked("PUT", "/api/alert-rules")) == 3)
    first = {"rules": [{"kind": "desktop.not-ready", "enabled": True, "number": 16}]}
    assert server.asked("PUT", "/api/alert-rules")[0] == first
    browser.sees_no("does not hold")
    estate.changed_at = ago()
    browser.find(BROKEN).click()
    browser.sees("does not hold: it was changed at")
    browser.wait("what was refused is shown no more", lambda: browser.find(BROKEN).is_selected())


def test_emptied_number_of_a_rule_of_alerts_changes_nothing(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.role = "admin"
    browser.open("/alerts")
    browser.find(SLOW).clear()
    browser.wait("what is in force", lambda: browser.find(SLOW).get_property("value") == "15")
    browser.find(SLOW).send_keys(Keys.ARROW_UP)
    browser.wait("that is sent", lambda: server.asked("PUT", "/api/alert-rules"))
    (sent,) = server.asked("PUT", "/api/alert-rules")
    assert sent["rules"][0]["number"] == 16


def test_price_that_somebody_changed_since_the_page_was_opened_is_not_overwritten(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.role = "admin"
    amount = "input[aria-label='Amount of Tier']"
    browser.open("/usage")
    browser.type(amount, "0.5")
    browser.click("Set its price from now on")
    browser.wait("it is set", lambda: browser.find(amount).get_attribute("value") == "")
    assert server.asked("PUT", "/api/prices") == [{"prices": [{"tier": "free", "microsPerHour": 500_000}]}]
    browser.sees_no("does not hold")
    estate.changed_at = ago()
    browser.type(amount, "0.75")
    browser.click("Set its price from now on")
    browser.sees("does not hold: it was changed at")


def test_what_would_go_is_counted_before_an_admin_signs_how_long_conversations_are_kept(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/workspaces/team-01")
    browser.sees("Each is kept 90 days after its last message, as the site says.")
    browser.type("input[type=number]", "30")
    browser.click("Count what would go")
    browser.sees("Now 12 conversations with 240 messages would be deleted for good")
    assert server.asked("POST", "/api/retention") == []
    browser.click("Sign it with my passkey")
    browser.wait("it is sent", lambda: server.asked("POST", "/api/retention") != [])
    assert server.asked("POST", "/api/intents") == [{"kind": "retention.set", "target": "workspace:team-01 30 days"}]
    (sent,) = server.asked("POST", "/api/retention")
    assert (sent["workspaceId"], sent["days"]) == ("team-01", 30)
    (operation,) = browser.wait("it is admitted", lambda: list(estate.operations))
    estate.advance(operation, state="done", endedAt=ago())
    browser.sees("Each is kept 30 days after its last message, as Ada set it.")


def test_a_conversation_that_is_deleted_while_it_is_read_says_so(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.conversations["cv-1"] = {"id": "cv-1", "desktopId": DESK, "title": "old"}
    estate.message("cv-1", "person", "words of long ago")
    browser.open("/conversations/cv-1")
    browser.sees("words of long ago")
    estate.tell("conversation", {"id": "cv-1", "gone": True})
    browser.sees("This conversation is deleted")
    assert "words of long ago" not in browser.text()


def test_conversation_that_is_read_stays_whole_whatever_is_said_elsewhere(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.conversations["cv-1"] = {"id": "cv-1", "desktopId": DESK, "title": "long"}
    estate.message("cv-1", "person", "the first words")
    browser.open("/conversations/cv-1")
    browser.sees("the first words")
    # More than a page keeps.
    for number in range(5001):
        estate.message("cv-2", "agent", f"{number}")
    estate.message("cv-1", "agent", "the last words")
    browser.sees("the last words")
    assert "the first words" in browser.text()


def test_what_an_agent_asks_by_itself_is_answered_by_its_own_options_and_named_a_courtesy(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    estate.conversations["cv-1"] = {"id": "cv-1", "desktopId": DESK, "title": "work"}
    options = [
        {"id": "yes", "name": "Yes, once", "kind": "allow_once"},
        {"id": "no", "name": "No", "kind": "reject_once"},
    ]
    question: dict[str, Any] = {
        "id": "q1",
        "asked": "Run ls",
        "options": options,
        "strength": "courtesy",
        "state": "open",
        "askedAt": ago(),
    }
    question |= {"until": ago(minutes=-9), "option": None, "answeredBy": None, "answeredAt": None, "heard": False}
    found = estate.message("cv-1", "agent", "", state="streaming", questions=[question])
    browser.open("/conversations/cv-1")
    browser.sees("The agent asks: Run ls")
    browser.sees("Courtesy: it asks by itself")
    browser.click("Yes, once")
    browser.sees("Ada answered: Yes, once. The agent has not heard it yet.")
    path = f"/api/conversations/cv-1/messages/{found['id']}/questions/q1/answer"
    assert server.asked("POST", path) == [{"option": "yes"}]
