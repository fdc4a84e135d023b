"""What gateways measured, on the page Usage: by name, as of when, and why where nothing is counted."""

import pytest

from tests.web import upkeep
from tests.web.browser import Browser
from tests.web.estate import Estate, ago, measured, reading

pytestmark = pytest.mark.sampled

LOCK = "Declare egress: locked, then ./inv workspace.up NAME."


@pytest.fixture(autouse=True)
def filled(estate: Estate) -> None:
    estate.fill(workspaces=3, desktops=1)


def rows(browser: Browser) -> list[str]:
    return [row.text for row in browser.all("[aria-label='Measured at the gateway'] tbody tr")]


def test_bytes_are_shown_by_name_in_units_beside_time_and_claims(browser: Browser, estate: Estate) -> None:
    estate.measured = [
        measured("team-01.desk-1", "api.anthropic.com", 5 * 2**30 + 2**29, 3 * 2**20, 212),
        measured("team-02.desk-1", "pypi.org", 0, 1023, 1),
    ]
    estate.readings = [reading(f"team-0{number}", ago(minutes=10 * number)) for number in (1, 2, 3)]
    browser.open("/usage")
    browser.sees("Measured at the gateway")
    assert rows(browser) == [
        "team-01.desk-1 api.anthropic.com 5.5 GiB 3.0 MiB 212",
        "team-02.desk-1 pypi.org 0 B 1023 B 1",
    ]
    browser.sees("The oldest count is of 30 min ago, in team-03")
    browser.sees("Nobody has measured them")
    for unsaid in ("more rows", "Nothing is counted", "Not read yet", "could not be read"):
        browser.sees_no(unsaid)
    estate.measured_left_out = 7
    browser.open("/usage")
    browser.sees("7 more rows with fewer bytes are in the CSV")


@pytest.mark.parametrize("days", ["since=2026-11-01&until=2026-11-02", "since=2026-11-01", "until=2026-11-02"])
def test_table_is_of_the_days_that_are_shown(browser: Browser, days: str) -> None:
    browser.open(f"/usage?by=day&{days}")
    browser.sees("Measured at the gateway")
    (link,) = [link for link in browser.all("a[download]") if link.text == "CSV of what was measured"]
    assert link.get_attribute("href").endswith(f"/api/usage/traffic.csv?{days}")
    assert browser.find("a[download='usage.csv']").get_attribute("href").endswith(f"/api/usage.csv?{days}")


def test_workspace_that_counts_nothing_says_why_and_what_to_do(browser: Browser, estate: Estate) -> None:
    estate.workspaces["team-01"]["egress"] = "open"
    opened = {**upkeep.SILENT, "reason": "is open, so no names are counted"}
    estate.readings = [reading("team-01", None, opened), reading("team-02"), reading("team-03", None, upkeep.SILENT)]
    browser.open("/usage")
    browser.sees(f"Nothing is counted where egress is not locked: team-01. {LOCK}")
    browser.sees("Not read yet: team-02. Gateways are read by the hour while a desktop is in use")
    browser.sees("team-03 could not be read: gateway does not run. ./inv workspace.start")
    assert rows(browser) == []
    browser.sees_no("Nothing passed")


def test_locked_workspace_through_whose_gateway_nothing_passed_says_just_that(browser: Browser, estate: Estate) -> None:
    estate.readings = [reading("team-01", ago(minutes=20))]
    browser.open("/usage")
    browser.sees("Nothing passed a gateway that counts, from 2026-11-01 to 2026-11-25")
    browser.sees("Counted as of 20 min ago, in team-01")
    browser.sees_no("Nothing is counted where")


def test_price_of_less_than_a_hundredth_is_not_shown_as_nothing(browser: Browser, estate: Estate) -> None:
    estate.price = 4_000
    browser.open("/usage")
    browser.wait("the price", lambda: any("free 0.004" in row.text for row in browser.all("tbody tr")))
