"""Chromium: it renders a page, with our policies."""

import json
from typing import Any

from testinfra.host import Host


def test_browser_starts_as_the_agent(host: Host) -> None:
    assert host.run("sudo -u agent -i chromium --version").stdout.startswith("Chromium ")


def test_policies_are_set(host: Host, defaults: dict[str, Any]) -> None:
    assert (
        json.loads(host.file("/etc/chromium/policies/managed/deskyard.json").content_string)
        == defaults["browser_policies"]
    )
