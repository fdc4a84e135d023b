"""Budgets on the page Usage: what they close, and how a person says so."""

import pytest

from tests.web.browser import Browser
from tests.web.estate import Estate
from tests.web.stand_in import StandIn

NAMES = "input[aria-label='Names that it closes when it is spent']"
WORKSPACE = "select[aria-label='Workspace whose budget closes names']"


@pytest.fixture(autouse=True)
def filled(estate: Estate) -> None:
    estate.fill(workspaces=2, desktops=2)


def test_budgets_say_what_is_closed_and_what_would_be(browser: Browser) -> None:
    browser.open("/usage")
    browser.sees("team-01 closes api.anthropic.com when it is spent")
    browser.sees("team-02 has closed api.anthropic.com, api.openai.com")
    browser.sees("all open connections of the workspace end once")


def test_names_that_a_budget_closes_are_set_and_its_amount_stays(browser: Browser, server: StandIn) -> None:
    browser.open("/usage")
    browser.sees("Close these when it is spent")
    assert server.asked("PUT", "/api/budgets/team-02") == []
    browser.choose(WORKSPACE, "team-02")
    browser.type(NAMES, "api.example.org, *.models.example.org")
    browser.click("Close these when it is spent")
    (wanted,) = browser.wait("the budget is set", lambda: server.asked("PUT", "/api/budgets/team-02"))
    assert wanted == {"microsPerMonth": 2_000_000, "closes": ["api.example.org", "*.models.example.org"]}
