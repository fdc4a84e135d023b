"""Enrolment, and sign-in by a passkey or a provider."""

import pytest

from tests.web.browser import Browser
from tests.web.estate import Estate
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled


def test_a_passkey_signs_in_and_leads_back_to_the_page_that_was_asked_for(browser: Browser, server: StandIn) -> None:
    server.sessions.clear()
    browser.open("/operations?state=failed")
    browser.click("Use my passkey")
    browser.sees("No operations that are failed")
    assert browser.path() == "/operations?state=failed"


def test_who_signs_in_next_sees_nothing_of_who_was_there_before(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/operations")
    estate.operation("workspace.up", "team-01")
    browser.sees("bring up team-01")
    server.sessions.clear()
    browser.click("Audit")
    browser.sees("Use my passkey")
    # The next person may see none of it.
    estate.operations.clear()
    browser.script("history.replaceState(null, '', '/sign-in?next=/operations')")
    browser.script("dispatchEvent(new PopStateEvent('popstate'))")
    browser.click("Use my passkey")
    browser.sees("No operations")
    assert "bring up" not in browser.text()


def test_tab_whose_session_ended_asks_no_more(browser: Browser, estate: Estate, server: StandIn) -> None:
    estate.fill(workspaces=1, desktops=1)
    browser.open("/")
    browser.sees("1 desktop")
    browser.sees("live")
    # Pauses are over when this test says so.
    browser.script(
        "window.armed = []; const after = window.setTimeout;"
        "window.setTimeout = (act, pause, ...more) => pause < 1000 ? after(act, pause, ...more) : armed.push(act);"
    )
    server.sessions.clear()
    estate.hang_up()
    browser.wait("it waits to try again", lambda: browser.script("return armed.length") == 1)
    browser.script("armed[0]()")
    browser.sees("Use my passkey")
    # What is asked after it is answered after it.
    browser.driver.execute_async_script("fetch('/api/sign-in').then((answer) => answer.json()).then(arguments[0])")
    browser.frame()
    assert browser.script("return armed.length") == 1


def test_an_address_of_another_site_is_not_gone_to_after_sign_in(browser: Browser, server: StandIn) -> None:
    server.sessions.clear()
    browser.open("/sign-in?next=//evil.example/")
    browser.click("Use my passkey")
    browser.sees("Fleet")
    assert browser.path() == "/"


def test_a_link_that_was_used_says_how_to_get_another(browser: Browser) -> None:
    browser.open("/enrol#twice")
    browser.click("Enrol")
    browser.sees("the link was used, or is too old")
    browser.sees("./inv control.person NAME")
    assert browser.path() == "/enrol", "the token stays out of the address"


def test_signing_out_ends_at_the_sign_in_page(browser: Browser) -> None:
    browser.open("/settings")
    browser.click("Sign out")
    browser.sees("Use my passkey")
    browser.wait("no way back to that page", lambda: browser.path() == "/sign-in")


def test_a_provider_signs_in_and_leads_back_to_the_page_that_was_asked_for(
    browser: Browser, server: StandIn, estate: Estate
) -> None:
    estate.provider, estate.passkeys = "Example", 1
    server.sessions.clear()
    browser.open("/operations?state=failed")
    browser.click("Sign in with Example")
    browser.sees("No operations that are failed")
    assert browser.path() == "/operations?state=failed"
    back = {"state": "open", "code": "once", "error": None, "issuer": "https://login.example.org"}
    assert server.asked("POST", "/api/sign-in/provider/answer") == [back]


def test_who_has_no_passkey_is_told_what_needs_one_and_how_to_enrol_it(
    browser: Browser, server: StandIn, estate: Estate
) -> None:
    estate.provider = "Example"
    server.sessions.clear()
    browser.open("/sign-in?next=//evil.example/")
    browser.click("Sign in with Example")
    browser.sees("You are signed in")
    browser.sees("is signed with a passkey all the same")
    browser.sees("./inv control.person ada")
    assert browser.path() == "/sign-in/answer", "code and state stay out of the address"
    browser.click("Go on without a passkey")
    browser.sees("Fleet")
    assert browser.path() == "/"


def test_why_the_provider_signed_nobody_in_is_said_where_one_signs_in(browser: Browser, server: StandIn) -> None:
    server.sessions.clear()
    browser.open("/sign-in/answer?state=another&code=once")
    browser.sees("took too long")
    browser.sees("Use my passkey")
    assert browser.path() == "/sign-in"
    browser.open("/sign-in")
    browser.sees("Use my passkey")
    browser.sees_no("took too long")


def test_no_button_is_there_for_a_provider_that_was_not_declared(browser: Browser, server: StandIn) -> None:
    server.sessions.clear()
    browser.open("/sign-in")
    browser.wait("the page asked", lambda: ("GET", "/api/sign-in", None) in server.requests)
    browser.sees("Use my passkey")
    assert len(browser.all("main button")) == 1
