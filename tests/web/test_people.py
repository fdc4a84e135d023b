"""Who may what, and what gives it to them: the Settings page for an admin, and for everybody else."""

import pytest

from tests.web.browser import Browser
from tests.web.estate import Estate
from tests.web.stand_in import StandIn
from tests.web.test_every_page import AXE

pytestmark = pytest.mark.sampled


def row(browser: Browser, name: str) -> str:
    """What the table of people says of somebody."""
    path = f"//tr[td[1][normalize-space()='{name}']][td[6]]"
    found = browser.wait(f"a row of {name}", lambda: browser.driver.find_elements("xpath", path))
    return " ".join(found[-1].text.split())


def test_an_admin_sees_what_everybody_may_and_what_gives_it_to_them(browser: Browser, estate: Estate) -> None:
    browser.open("/settings")
    assert row(browser, "Ada").startswith("Ada admin all the host, ") and "ago a passkey" in row(browser, "Ada")
    given = "bea@example.org operator team-01 the provider's rule group:platform=operator@team-01, "
    assert row(browser, "bea@example.org").startswith(given)
    assert "ago an account of the provider" in row(browser, "bea@example.org")
    assert row(browser, "Cas").startswith("Cas viewer team-01, team-02 the host, ")
    assert "ago invited: a link that enrols a passkey, until" in row(browser, "Cas")
    assert row(browser, "Dee").startswith("Dee operator all the host invited: the provider's account with their mail")


def test_to_change_what_somebody_may_is_a_command_of_the_host(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=2, desktops=1)
    browser.open("/settings")
    browser.click("Change what bea@example.org may")
    browser.sees("From then on no rule of the provider changes it")
    browser.sees("./inv control.person bea@example.org --role operator --workspaces team-01")
    browser.choose("dialog select", "viewer")
    browser.find("dialog input[value=team-02]").click()
    browser.sees("./inv control.person bea@example.org --role viewer --workspaces team-01,team-02")
    browser.choose("dialog select", "admin")
    browser.sees("An admin is of all workspaces")
    assert browser.find("dialog .command code").text == "./inv control.person bea@example.org --role admin"
    browser.press("\ue00c")
    browser.wait("the dialog is closed", lambda: not browser.all("dialog"))


def test_who_is_no_admin_sees_their_own_alone(browser: Browser, server: StandIn, estate: Estate) -> None:
    estate.role = "operator"
    server.requests.clear()
    browser.open("/settings")
    browser.sees("What you may")
    assert row(browser, "Ada").startswith("Ada operator all the host, ")
    browser.sees_no("bea@example.org")
    browser.sees("Each is kept 90 days")
    assert not [heading for heading in browser.all("h2") if heading.text == "API keys"]
    assert not [button for button in browser.all("button") if "Change" in button.text]
    assert server.asked("GET", "/api/keys") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("role", ["operator", "admin"])
def test_no_fault_of_accessibility_is_found_for_any_role(
    browser: Browser, estate: Estate, axe: str, role: str, theme: str
) -> None:
    estate.fill(workspaces=2, desktops=1)
    estate.role = role
    browser.script("localStorage.setItem('theme', arguments[0])", theme)
    browser.open("/settings")
    row(browser, "Ada")
    if role == "admin":
        browser.click("Change what Cas may")
        browser.sees("The host alone changes what somebody may")
    browser.script(axe)
    assert browser.driver.execute_async_script(AXE) == []
    browser.script("localStorage.removeItem('theme')")


def test_what_somebody_may_fits_a_phone(browser: Browser, estate: Estate) -> None:
    estate.fill(workspaces=2, desktops=1)
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.open("/settings")
        row(browser, "Ada")
        browser.click("Change what bea@example.org may")
        browser.sees("The host alone changes what somebody may")
        for part in ("main", "dialog"):
            assert browser.script(f"return document.querySelector('{part}').scrollWidth") <= 390
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
