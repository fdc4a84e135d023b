"""Keys and persons by the page Settings: what is signed, what is shown once, and what ends."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from deskyard.control.opening import seal
from deskyard.control.people.scopes import ADMIN, SCOPES
from tests.web.browser import Browser, Keys
from tests.web.credentials import KEY_TEXT, LINK
from tests.web.estate import Estate
from tests.web.stand_in import StandIn
from tests.web.test_every_page import AXE
from tests.web.test_people import row

pytestmark = pytest.mark.sampled

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
PLACE = """
const dialog = document.querySelector("dialog"), place = dialog.getBoundingClientRect();
return [place.left, place.right, place.top, dialog.scrollWidth];
"""
COPIED = "navigator.clipboard.writeText = (text) => Promise.resolve(void (window.copied = text))"


def opened(browser: Browser, estate: Estate, words: str) -> None:
    """The page Settings with one of its dialogs."""
    estate.fill(workspaces=2, desktops=1)
    browser.open("/settings")
    row(browser, "Ada")
    browser.click(words)
    browser.find("dialog")


def fits(browser: Browser) -> bool:
    """Whether the dialog is within a phone's screen, or scrolls downwards in it."""
    left, right, top, wide = browser.script(PLACE)
    return bool(left >= 0 and right <= PHONE["width"] and top >= 0 and wide <= PHONE["width"])


def signed_for(server: StandIn, kind: str) -> str:
    """What was signed last, without the key of the page."""
    asked = [each["target"] for each in server.asked("POST", "/api/intents") if each["kind"] == kind]
    return str(asked[-1].rpartition(" for key ")[0] or asked[-1])


def test_a_key_is_made_as_was_chosen_and_shown_this_once(browser: Browser, estate: Estate, server: StandIn) -> None:
    opened(browser, estate, "New key")
    offered = [each.get_attribute("value") for each in browser.all("dialog fieldset:first-of-type input")]
    assert offered == [scope for scope in SCOPES if scope != ADMIN]
    browser.type("dialog input[name=name]", 'night "reports" ü')
    browser.sees("Whoever has the key may, in all workspaces, for 30 days: see desktops")
    browser.find("dialog input[value='desktops:destroy']").click()
    browser.sees("Nobody is asked for a passkey when it does that.")
    browser.find("dialog input[value=team-02]").click()
    browser.type("dialog input[name=days]", "7")
    browser.click("Make it, signed by my passkey")
    browser.sees(KEY_TEXT)
    (sent,) = server.asked("POST", "/api/keys")
    assert {name: sent[name] for name in ("name", "scopes", "workspaces", "days")} == {
        "name": 'night "reports" ü',
        "scopes": ["desktops:destroy", "read"],
        "workspaces": ["team-02"],
        "days": 7,
    }
    line = '"night \\"reports\\" ü" scopes=desktops:destroy,read workspaces=team-02 days=7'
    assert signed_for(server, "key.create") == line
    browser.script(COPIED)
    browser.click("Copy it")
    browser.wait("it is copied", lambda: browser.script("return window.copied") == KEY_TEXT)
    browser.click("I have copied it")
    browser.wait("the dialog is closed", lambda: not browser.all("dialog"))
    browser.sees('night "reports" ü')
    assert KEY_TEXT not in browser.text()


def test_who_gives_little_is_offered_no_more_and_told_which_command_widens_it(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    estate.gives = "viewer"
    widening = "./inv control.person Ada --role admin --gives operator"
    opened(browser, estate, "New key")
    offered = [each.get_attribute("value") for each in browser.all("dialog fieldset:first-of-type input")]
    assert offered == ["read", "desktops:write", "chat", "approvals:read"]
    days = browser.find("dialog input[name=days]")
    assert (days.get_attribute("max"), days.get_property("value")) == ("30", "30")
    browser.sees("whoever took this page could use one signature of yours for themselves")
    browser.sees(widening)
    opened(browser, estate, "Invite")
    assert [each.get_attribute("value") for each in browser.all("dialog select option")] == ["viewer"]
    browser.sees(widening)
    browser.type("dialog input[name=name]", "Eve")
    browser.click("Make the link, signed by my passkey")
    browser.sees(LINK)
    assert signed_for(server, "person.invite") == '"Eve" role=viewer all workspaces'


def test_who_answers_approvals_is_left_to_the_host_while_there_is_a_rule(browser: Browser, estate: Estate) -> None:
    estate.ruled = "team-01"
    opened(browser, estate, "New key")
    offered = [each.get_attribute("value") for each in browser.all("dialog fieldset:first-of-type input")]
    assert "approvals:decide" not in offered and "desktops:destroy" in offered
    browser.sees("while team-01 has a rule of approvals")
    browser.sees("./inv control.key NAME --scopes approvals:decide")
    opened(browser, estate, "Invite")
    assert [each.get_attribute("value") for each in browser.all("dialog select option")] == ["viewer"]
    browser.sees("./inv control.person NAME --role operator")


@pytest.mark.parametrize(("gives", "offered"), [("viewer", False), ("operator", True)])
def test_a_new_link_is_offered_for_whom_the_admin_may_give(
    browser: Browser, estate: Estate, gives: str, offered: bool
) -> None:
    estate.gives = gives
    browser.open("/settings")
    row(browser, "Dee")
    words = [" ".join(each.get_property("textContent").split()) for each in browser.all("main button")]
    assert ("New link for Dee" in words) is offered
    assert {"New link for Cas", "Remove… Dee"} <= set(words)


def test_a_name_that_is_taken_is_said_and_the_form_stays(browser: Browser, estate: Estate) -> None:
    opened(browser, estate, "New key")
    browser.type("dialog input[name=name]", "taken")
    browser.click("Make it, signed by my passkey")
    browser.sees("is the name of a key that still counts")
    assert browser.find("dialog input[name=name]").get_property("value") == "taken"
    browser.find("dialog input[value=read]").click()
    assert not browser.find("dialog button.primary").is_enabled(), "a key that may nothing is none"


def test_a_key_that_is_sealed_to_somebody_else_is_not_shown(browser: Browser, estate: Estate) -> None:
    opened(browser, estate, "New key")
    estate.sealed_to = seal.written(ec.generate_private_key(seal.CURVE).public_key())
    browser.type("dialog input[name=name]", "ci-2")
    browser.click("Make it, signed by my passkey")
    browser.sees("the key is sealed to another page")
    assert KEY_TEXT not in browser.text()


def test_somebody_is_invited_by_a_link_that_is_shown_this_once(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    opened(browser, estate, "Invite")
    browser.sees("./inv control.person NAME --role admin")
    offered = [each.get_attribute("value") for each in browser.all("dialog select option")]
    assert offered == ["operator", "viewer"]
    browser.type("dialog input[name=name]", "Eve")
    browser.choose("dialog select", "viewer")
    browser.sees("A viewer sees everything, and changes nothing.")
    browser.click("Make the link, signed by my passkey")
    browser.sees(LINK)
    browser.sees("whoever opens it first is Eve here")
    (sent,) = server.asked("POST", "/api/people")
    assert (sent["name"], sent["role"], sent["workspaces"]) == ("Eve", "viewer", None)
    assert signed_for(server, "person.invite") == '"Eve" role=viewer all workspaces'
    browser.click("I have copied it")
    assert row(browser, "Eve").startswith("Eve viewer all Ada, ")
    assert "invited: a link that enrols a passkey, until" in row(browser, "Eve")


def test_somebody_who_is_there_gets_a_new_link(browser: Browser, estate: Estate, server: StandIn) -> None:
    opened(browser, estate, "New link for Cas")
    browser.sees("It enrols another passkey of Cas")
    browser.click("Make the link, signed by my passkey")
    browser.sees(LINK)
    assert len(server.asked("POST", "/api/people/cas/link")) == 1
    assert signed_for(server, "person.invite") == '"Cas" another link'


def test_who_is_removed_is_gone_once_it_was_said_what_is_lost(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    opened(browser, estate, "Remove… Cas")
    browser.sees("All passkeys, sessions and links of Cas end at once")
    browser.click("Leave as it is")
    browser.sees_no("All passkeys, sessions and links of Cas")
    assert server.asked("DELETE", "/api/people/cas") == []
    browser.click("Remove… Cas")
    browser.click("Remove, signed by my passkey")
    browser.sees_no("Cas")
    assert len(server.asked("DELETE", "/api/people/cas")) == 1
    assert signed_for(server, "person.remove") == '"Cas"'


def test_a_passkey_of_ones_own_is_gone_once_it_was_said_what_ends_with_it(
    browser: Browser, estate: Estate, server: StandIn
) -> None:
    opened(browser, estate, "Remove… Phone")
    browser.sees("the sessions that it began end at once")
    browser.click("Remove, signed by my passkey")
    browser.sees_no("Phone")
    browser.sees("Laptop")
    assert len(server.asked("DELETE", "/api/me/passkeys/passkey-2")) == 1
    assert signed_for(server, "passkey.remove") == '"Phone" passkey-2'


def test_admins_are_left_to_the_host_and_who_is_none_is_offered_nothing(browser: Browser, estate: Estate) -> None:
    browser.open("/settings")
    row(browser, "Ada")
    words = [" ".join(each.get_property("textContent").split()) for each in browser.all("main button")]
    assert "Change what Ada may" in words
    assert not {"New link for Ada", "Remove… Ada"} & set(words)
    estate.role = "operator"
    browser.open("/settings")
    row(browser, "Ada")
    words = [" ".join(each.get_property("textContent").split()) for each in browser.all("main button")]
    assert not {"Invite", "New key"} & set(words)


def test_where_nobody_and_no_key_is_there_the_next_step_is_named(browser: Browser, estate: Estate) -> None:
    estate.has_key = False
    estate.removed |= {"bea@example.org", "cas", "dee"}
    browser.open("/settings")
    browser.sees("No key yet. A program asks with one")
    browser.sees("Nobody else is here yet: let a colleague enrol a passkey with Invite.")


def test_a_browser_without_its_passkey_makes_nothing(browser: Browser, estate: Estate, server: StandIn) -> None:
    opened(browser, estate, "New link for Cas")
    server.passkeys.known, kept = ["AAAA"], server.passkeys.known
    try:
        browser.click("Make the link, signed by my passkey")
        browser.sees("no passkey answered")
    finally:
        server.passkeys.known = kept
    assert server.asked("POST", "/api/people/cas/link") == []


@pytest.mark.parametrize("words", ["New key", "Invite", "New link for Cas", "Remove… Cas"])
def test_each_dialog_is_for_everybody_in_both_themes_and_on_a_phone(
    browser: Browser, estate: Estate, axe: str, words: str
) -> None:
    # All that these may say.
    estate.gives, estate.ruled = "viewer", "team-01"
    opened(browser, estate, words)
    browser.script(axe)
    for theme in ("light", "dark"):
        browser.script("document.documentElement.dataset.theme = arguments[0]", theme)
        assert browser.driver.execute_async_script(AXE) == []
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        opened(browser, estate, words)
        assert fits(browser), browser.script(PLACE)
        if words == "New link for Cas":
            # The first button has the focus, as the dialog has no field.
            browser.press(Keys.ENTER)
            browser.sees(LINK)
            assert fits(browser), browser.script(PLACE)
            browser.script(axe)
            assert browser.driver.execute_async_script(AXE) == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
