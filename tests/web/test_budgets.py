"""Budgets on the page Usage: what they close, and how a person says so."""

import pytest

from tests.web import upkeep
from tests.web.browser import Browser
from tests.web.estate import Estate
from tests.web.stand_in import StandIn

pytestmark = pytest.mark.sampled

NAMES = "input[aria-label='Names that it closes when it is spent']"
WORKSPACE = "select[aria-label='Workspace whose budget closes names']"
BYTES = "Workspace whose bytes are bound"
VERB = "Set its GiB a month (0: none)"


@pytest.fixture(autouse=True)
def filled(estate: Estate) -> None:
    estate.fill(workspaces=3, desktops=2)


def test_budgets_say_what_is_closed_and_what_would_be(browser: Browser) -> None:
    browser.open("/usage")
    browser.sees("team-01 closes api.anthropic.com when either is spent")
    browser.sees("team-03 closes api.anthropic.com when it is spent")
    browser.sees("team-02 has closed api.anthropic.com, api.openai.com")
    browser.sees("all open connections of the workspace end once")


@pytest.mark.parametrize(
    ("text", "names"),
    [("api.example.org, *.models.example.org", ["api.example.org", "*.models.example.org"]), ("", [])],
    ids=["two", "none"],
)
def test_names_that_a_budget_closes_are_set_and_its_amount_stays(
    browser: Browser, server: StandIn, text: str, names: list[str]
) -> None:
    browser.open("/usage")
    browser.sees("Close these when it is spent")
    assert server.asked("PUT", "/api/budgets/team-02") == []
    browser.choose(WORKSPACE, "team-02")
    browser.type(NAMES, text)
    browser.click("Close these when it is spent")
    (wanted,) = browser.wait("the budget is set", lambda: server.asked("PUT", "/api/budgets/team-02"))
    assert wanted == {"microsPerMonth": 2_000_000, "bytesPerMonth": None, "closes": names}


def test_machine_time_and_bytes_stand_side_by_side_and_bytes_say_as_of_when(browser: Browser) -> None:
    browser.open("/usage")
    browser.sees("500.0 MiB of 500.0 MiB")
    assert [row.text for row in browser.all("[aria-label='Budgets of this month'] tbody tr")] == [
        "team-01 0.50 of 10.00 5 % 2.5 GiB of 10.0 GiB 25 % 40 min ago",
        "team-02 2.10 of 2.00 105 % 0 B not read yet",
        "team-03 0.00 500.0 MiB of 500.0 MiB 100 % 2 h ago",
    ]


@pytest.mark.parametrize(
    ("text", "count"), [("1.5", 3 * 2**29), ("500 MiB", 500 * 2**20), ("0", None)], ids=["GiB", "a unit", "none"]
)
def test_bytes_are_bound_in_gib_or_a_named_unit_and_the_amount_of_machine_time_stays(
    browser: Browser, server: StandIn, text: str, count: int | None
) -> None:
    browser.open("/usage")
    browser.sees(VERB)
    browser.type(f"input[aria-label='Amount of {BYTES}']", text)
    browser.click(VERB)
    (wanted,) = browser.wait("the budget is set", lambda: server.asked("PUT", "/api/budgets/team-01"))
    assert wanted == {"microsPerMonth": 10_000_000, "bytesPerMonth": count}


def test_machine_time_is_bound_and_bytes_stay(browser: Browser, server: StandIn) -> None:
    browser.open("/usage")
    browser.sees("Set its budget (0: none)")
    browser.choose("select[aria-label='Workspace']", "team-03")
    browser.type("input[aria-label='Amount of Workspace']", "2.5")
    browser.click("Set its budget (0: none)")
    (wanted,) = browser.wait("the budget is set", lambda: server.asked("PUT", "/api/budgets/team-03"))
    assert wanted == {"microsPerMonth": 2_500_000, "bytesPerMonth": 500 * 2**20}


def test_what_is_no_amount_of_bytes_is_not_sent_and_none_is_bound_where_none_are_counted(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.workspaces["team-02"]["egress"] = "open"
    browser.open("/usage")
    browser.sees(VERB)
    choices = browser.all(f"select[aria-label='{BYTES}'] option")
    assert [choice.text for choice in choices] == ["team-01", "team-03"]
    browser.type(f"input[aria-label='Amount of {BYTES}']", "much")
    browser.click(VERB)
    browser.sees("Write a number such as 50, or 500 MiB")
    assert server.asked("PUT", "/api/budgets/team-01") == []


@pytest.mark.parametrize(
    ("workspace", "words"), [("team-02", "its budget of machine time"), ("team-03", "its budget of measured bytes")]
)
def test_page_of_a_workspace_says_which_of_its_bounds_closes_a_name(
    browser: Browser, estate: Estate, workspace: str, words: str
) -> None:
    upkeep.furnish(estate, workspace)
    browser.open(f"/workspaces/{workspace}")
    browser.sees(f"*.models.example.org {words}")
