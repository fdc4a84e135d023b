"""The browser that was chosen, and no other: it starts with its sandbox, and obeys our policies."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from testinfra.host import Host


@dataclass(frozen=True)
class Browser:
    """Where a browser has what."""

    command: str
    says: str
    policies: str
    sandbox: str
    menu: str


BROWSERS = {
    "chromium": Browser(
        "chromium",
        "Chromium ",
        "/etc/chromium/policies/managed",
        "/usr/lib/chromium/chrome-sandbox",
        "chromium.desktop",
    ),
    "chrome": Browser(
        "google-chrome",
        "Google Chrome ",
        "/etc/opt/chrome/policies/managed",
        "/opt/google/chrome/chrome-sandbox",
        "google-chrome.desktop",
    ),
}


@pytest.fixture(scope="module")
def browser(defaults: dict[str, Any]) -> Browser:
    return BROWSERS[defaults["browser_kind"]]


def test_browser_starts_as_the_agent(host: Host, browser: Browser) -> None:
    assert host.run(f"sudo -u agent -i {browser.command} --version").stdout.startswith(browser.says)


def test_policies_are_set(host: Host, browser: Browser, defaults: dict[str, Any]) -> None:
    assert json.loads(host.file(f"{browser.policies}/deskyard.json").content_string) == defaults["browser_policies"]


def test_chromium_is_told_our_switches(host: Host, defaults: dict[str, Any]) -> None:
    if defaults["browser_kind"] == "chrome":
        assert not host.file("/etc/chromium.d/deskyard").exists
        return
    # As its start script puts them together.
    output = host.check_output("for file in /etc/chromium.d/*; do . $file; done; echo $CHROMIUM_FLAGS").split()
    assert [switch for switch in defaults["browser_chromium_switches"] if switch not in output] == []


def test_sandbox_is_there_and_nothing_turns_it_off(host: Host, browser: Browser) -> None:
    helper = host.file(browser.sandbox)
    assert (helper.user, helper.mode) == ("root", 0o4755)
    menu = host.file(f"/usr/share/applications/{browser.menu}").content_string
    assert "--no-sandbox" not in menu


def test_browser_is_the_one_that_pages_open_in(host: Host, browser: Browser) -> None:
    target = host.check_output("readlink /etc/alternatives/x-www-browser")
    assert target.rpartition("/")[2].removesuffix("-stable") == browser.command


def test_no_other_browser_is_in_the_menu(host: Host, browser: Browser) -> None:
    offered = host.run("grep --files-with-matches --recursive x-scheme-handler/https /usr/share/applications").stdout
    names = {line.rpartition("/")[2] for line in offered.splitlines() if line.endswith(".desktop")}
    assert {name for name in names if "hrom" in name} <= {browser.menu, "com.google.Chrome.desktop"}
    assert browser.menu in names


def test_vendors_repository_is_trusted_by_the_pinned_key_alone(host: Host, defaults: dict[str, Any]) -> None:
    source = host.file("/etc/apt/sources.list.d/google-chrome.sources")
    if defaults["browser_kind"] == "chromium":
        assert not source.exists
        return
    keyring = source.content_string.partition("Signed-By: ")[2].split()[0]
    output = host.check_output(f"gpg --no-autostart --with-colons --show-keys {keyring}").splitlines()
    assert sum(line.startswith("pub:") for line in output) == 1
    assert (
        next(line for line in output if line.startswith("fpr:")).split(":")[9]
        == (defaults["browser_chrome_key_fingerprint"])
    )
