"""A person signs in by a provider that is not ours, in Chromium, on Mission Control as the host brings it up.

CI has one who is let in, and one who is refused: each way through its forms takes a provider that is not ours seconds.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from deskyard.control.identity.declared import Declared, Rule
from tests.control import openid_witness
from tests.control.openid_double import CLIENT, SECRET
from tests.control.openid_witness import Witness
from tests.control.site import Site, running
from tests.support.browser import trust_alone
from tests.support.requirements import need_programs, need_root
from tests.web.browser import Browser
from tests.web.conftest import chromium

pytestmark = pytest.mark.sampled

# Short, so that a test need not wait for long.
RECHECK_SECONDS = 6.0
ACCOUNTS: dict[str, dict[str, Any]] = {
    "ada": {"email": "ada@example.com", "email_verified": True},
    "bea": {"email": "bea@example.org", "email_verified": True, "groups": ["platform"]},
    "eve": {"email": "eve@example.com", "email_verified": True},
}


class Visitor(Browser):
    """A browser of its own, on its way between Mission Control and the provider."""

    def asks_the_provider(self, page: str = "/") -> None:
        """Open a page, and press the provider's button."""
        self.open(page)
        self.click("Sign in with Example")

    def agrees_as(self, account: str) -> None:
        """Fill in the provider's forms, which are those of node-oidc-provider."""
        self.names(account)
        self.click("Continue")

    def names(self, account: str) -> None:
        """Sign in at the provider, which asks then whether Mission Control may know."""
        self.type("input[name=login]", account)
        self.type("input[name=password]", "any")
        self.click("Sign-in")
        self.sees("Continue")

    def answer(self, account: str) -> dict[str, str]:
        """What the provider sends this browser back with, whose page does nothing with it."""
        self.names(account)
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        self.click("Continue")
        self.wait("it is back", lambda: self.path().startswith("/sign-in/answer?"))
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path()).query).items()}

    def brings(self, answer: dict[str, str]) -> None:
        """Come back with an answer."""
        self.open(f"/sign-in/answer?{urlencode(answer)}")

    def complaints(self) -> list[str]:
        """Those of Mission Control's pages: what the provider's are like is not ours."""
        return [said for said in super().complaints() if not said.startswith("http://127.0.0.1:")]

    def status(self) -> int:
        """What Mission Control answers to whoever asks who they are."""
        asked = "const done = arguments[0]; fetch('/api/me').then((answer) => done(answer.status));"
        return int(self.driver.execute_async_script(asked))


@pytest.fixture(scope="module")
def both(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Witness]]:
    """Mission Control and its provider."""
    need_root("gives processes accounts of their own")
    need_programs("chromium", "chromedriver", "haproxy")
    with running(lambda folder: shutil.copytree(built, folder, dirs_exist_ok=True)) as found:
        redirect = f"{found.url}/sign-in/answer"
        with openid_witness.running(tmp_path_factory.mktemp("provider"), redirect, ACCOUNTS) as witness:
            found.control.declare(declared(witness, "openid", "email", "groups"))
            found.control.person("ada", mail="ada@example.com")
            yield found, witness


@pytest.fixture
def site(both: tuple[Site, Witness]) -> Site:
    return both[0]


def declared(witness: Witness, *scopes: str) -> Declared:
    """The provider, by whose rule a group drives."""
    return Declared(witness.issuer, CLIENT, SECRET, "Example", scopes, rules=(Rule.parsed("group:platform=operator"),))


@contextmanager
def visiting(site: Site) -> Iterator[Visitor]:
    """A fresh browser that trusts this Mission Control's certificate alone, and the provider's forms."""
    with chromium(trust_alone(site.certificate())) as driver:
        found = Visitor(driver, site.url)
        yield found
        found.complaints_are([])


@pytest.fixture
def visitor(site: Site) -> Iterator[Visitor]:
    with visiting(site) as found:
        yield found


def test_a_person_whom_the_host_linked_signs_in_and_comes_to_the_page_that_was_asked_for(visitor: Visitor) -> None:
    visitor.asks_the_provider("/settings")
    visitor.agrees_as("ada")
    visitor.sees("./inv control.person ada")
    visitor.click("Go on without a passkey")
    visitor.sees("ada, operator")
    assert visitor.path() == "/settings"
    visitor.click("Sign out")
    visitor.sees("Sign in with Example")
    assert visitor.status() == 401


@pytest.mark.deep
def test_a_person_of_a_rule_becomes_one_by_signing_in(visitor: Visitor) -> None:
    visitor.asks_the_provider("/settings")
    visitor.agrees_as("bea")
    visitor.click("Go on without a passkey")
    visitor.sees("bea@example.org, operator")


def test_a_person_whom_nobody_linked_is_shown_why_and_what_to_do(visitor: Visitor) -> None:
    visitor.asks_the_provider()
    visitor.agrees_as("eve")
    visitor.sees("person eve@example.com: is known to the provider, but is nobody here")
    visitor.sees("ask whoever runs Mission Control: ./inv control.person NAME --mail ADDRESS")
    visitor.sees("Use my passkey")
    assert (visitor.path(), visitor.status()) == ("/sign-in", 401)


@pytest.mark.deep
@pytest.mark.parametrize("where", ["signing in", "consent"])
def test_who_cancels_at_the_provider_is_back_where_one_signs_in_with_the_reason(visitor: Visitor, where: str) -> None:
    visitor.asks_the_provider("/settings")
    if where == "consent":
        visitor.names("ada")
    visitor.click("Cancel")
    visitor.sees("was cancelled, or not allowed, at the provider")
    assert (visitor.path(), visitor.status()) == ("/sign-in?next=%2Fsettings", 401)
    # From there it goes on to the same page.
    visitor.click("Sign in with Example")
    if where == "consent":
        visitor.click("Continue")
    else:
        visitor.agrees_as("ada")
    visitor.click("Go on without a passkey")
    visitor.sees("ada, operator")


@pytest.mark.deep
def test_the_state_of_another_browser_signs_nobody_in_and_is_over(site: Site, visitor: Visitor) -> None:
    with visiting(site) as other:
        other.asks_the_provider()
        stolen = other.answer("ada")
        for browser in (visitor, other):
            browser.brings(stolen)
            browser.sees("was not begun in this browser, was answered before, or took too long")
            assert (browser.path(), browser.status()) == ("/sign-in", 401)


@pytest.mark.deep
def test_the_code_of_another_browser_signs_nobody_in_beside_ones_own_state(site: Site, visitor: Visitor) -> None:
    with visiting(site) as other:
        other.asks_the_provider()
        stolen = other.answer("ada")
    visitor.asks_the_provider()
    visitor.brings({**visitor.answer("bea"), "code": stolen["code"]})
    visitor.sees("the provider takes this answer no more: it was used, or is old")
    assert (visitor.path(), visitor.status()) == ("/sign-in", 401)


@pytest.mark.deep
def test_who_lost_the_group_at_the_provider_is_soon_where_one_signs_in(both: tuple[Site, Witness]) -> None:
    site, witness = both
    found = declared(witness, "openid", "email", "groups", "offline_access")
    site.control.declare(replace(found, recheck_seconds=RECHECK_SECONDS))
    with visiting(site) as visitor:
        visitor.asks_the_provider("/settings")
        visitor.agrees_as("bea")
        visitor.click("Go on without a passkey")
        visitor.sees("bea@example.org, operator")
        witness.knows({**ACCOUNTS, "bea": {**ACCOUNTS["bea"], "groups": ["staff"]}})

        def is_signed_out() -> bool:
            visitor.open("/settings")
            visitor.wait("a page", lambda: re.search("Sign out|Sign in with Example", visitor.text()))
            return visitor.path() != "/settings"

        visitor.wait("who lost the group is signed out", is_signed_out)
        assert (visitor.path(), visitor.status()) == ("/sign-in?next=%2Fsettings", 401)
        visitor.click("Sign in with Example")
        visitor.click("Continue")
        visitor.sees("is of no rule any more")
