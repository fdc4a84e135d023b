"""Enrolment and sign-in by a passkey."""

from tests.web.browser import Browser
from tests.web.stand_in import StandIn


def test_a_passkey_signs_in_and_leads_back_to_the_page_that_was_asked_for(browser: Browser, server: StandIn) -> None:
    server.sessions.clear()
    browser.open("/operations?state=failed")
    browser.click("Use my passkey")
    browser.sees("No operations that are failed")
    assert browser.path() == "/operations?state=failed"


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
