"""A secret that somebody wrote where none belongs is refused by its key, and never shown."""

from typing import Any

import pytest

from deskyard.declaration.declaration import check_content
from deskyard.errors import ConfigError
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from tests.unit.site.stub import site_values

CANARY = "canary-91be-key"
NETWORK: dict[str, Any] = {"deskyard:network": "10.80.1.0/24", "deskyard:desktops": [{"name": "dev1"}]}


def refused(error: ConfigError, key: str) -> None:
    """It names the key, and nothing of the value."""
    assert error.field.endswith(key)
    assert "is not a known key" in error.reason
    assert "canary" not in f"{error}{error!r}{error.as_dict()}"


@pytest.mark.parametrize("value", [CANARY, {"secure": CANARY}, [CANARY]], ids=["plain", "encrypted", "listed"])
def test_a_key_stands_under_no_name_of_its_own(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        check_content("lab", {"config": {**NETWORK, "deskyard:agent_key": value}}, "Pulumi.lab.yaml")
    refused(caught.value, "agent_key")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"keys": CANARY}, "must map names"),
        ({"keys": [CANARY]}, "must map names"),
        ({"keys": None}, "must map names"),
        ({"keys": {"anthropic": CANARY}}, "'anthropic' in plain text"),
        ({"keys": {"anthropic": {"secure": CANARY}}}, "'anthropic' in plain text"),
        ({"keys": {"anthropic": {"secure": "v1:a:b", "was": CANARY}}}, "'anthropic' in plain text"),
        ({"keys": {"secure": f"v1:{CANARY}"}}, "as a whole"),
        ({"keys": {CANARY.upper(): {"secure": "v1:a:b"}}}, "no DNS label"),
        ({"keys": {"anthropic\n": {"secure": "v1:a:b"}}}, "no DNS label"),
        ({"shared_keys": CANARY}, "valid tuple"),
        ({"shared_keys": [CANARY.upper()]}, "no DNS label"),
        ({"shared_keys": [CANARY]}, "shared_keys: entry 1 names no key of this workspace (it has: none)"),
        ({"desktops": [{"name": "dev1", "keys": CANARY}]}, "valid tuple"),
        ({"desktops": [{"name": "dev1", "keys": [CANARY.upper()]}]}, "no DNS label"),
        ({"desktops": [{"name": "dev1", "keys": [CANARY]}]}, "keys of desktop 'dev1': entry 1 names no key"),
    ],
    ids=str,
)
def test_a_key_that_is_not_encrypted_is_refused_and_not_shown(changes: dict[str, Any], reason: str) -> None:
    config = {**NETWORK, **{f"deskyard:{key}": value for key, value in changes.items()}}
    with pytest.raises(ConfigError) as caught:
        check_content("lab", {"config": config}, "Pulumi.lab.yaml")
    assert reason in caught.value.reason
    assert "canary" not in f"{caught.value}{caught.value!r}{caught.value.as_dict()}".lower()


def test_a_desktop_gets_the_keys_that_it_names_and_those_of_all() -> None:
    keys = {name: {"secure": "v1:a:b"} for name in ("anthropic", "openai", "openrouter")}
    desktops = [{"name": "dev1", "keys": ["openai"]}, {"name": "dev2"}]
    values = {"name": "lab", "network": "10.80.1.0/24", "keys": keys, "desktops": desktops}
    given = Workspace.check(values, "test")
    assert [given.keys_of(desktop) for desktop in given.desktops] == [("openai",), ()]
    given = Workspace.check({**values, "shared_keys": ["anthropic", "openai"]}, "test")
    assert [given.keys_of(desktop) for desktop in given.desktops] == [("anthropic", "openai"), ("anthropic", "openai")]
    assert "v1:" not in repr(given)


@pytest.mark.parametrize("key", ["token", "password", "secret"])
def test_a_sites_file_holds_no_token(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Site.check(site_values("https://127.0.0.1:9", **{key: f"deskyard@pve!site={CANARY}"}), "rack.yaml")
    refused(caught.value, key)
