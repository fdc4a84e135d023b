"""Stack files: read whole, mistakes named."""

from ipaddress import IPv4Address
from pathlib import Path

import pytest

from deskyard.declaration import declaration
from deskyard.errors import ConfigError
from deskyard.host import addresses
from deskyard.image.store import store
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.site.proxmox import client, machines

GOOD = "config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops:\n    - name: dev1\n"


@pytest.fixture(autouse=True)
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    return tmp_path


def test_file_and_pulumi_configuration_give_the_same_workspace(stacks: Path) -> None:
    (stacks / "Pulumi.lab.yaml").write_text(GOOD)
    config = {"network": "10.80.1.0/24", "desktops": '[{"name": "dev1"}]'}
    assert declaration.read_workspace("lab") == declaration.from_config("lab", config.get)


def test_the_program_is_not_told_of_keys_and_of_what_customises(stacks: Path) -> None:
    config = {
        "network": "10.80.1.0/24",
        "desktops": '[{"name": "dev1", "keys": ["anthropic"], "customise": {"from": "canary-11d0"}}]',
        "keys": '{"anthropic": "canary-11d0"}',
        "shared_keys": '["anthropic"]',
        "customise": '{"from": "canary-11d0"}',
    }
    asked: list[str] = []

    def get(key: str) -> str | None:
        asked.append(key)
        return config.get(key)

    output = declaration.from_config("lab", get)
    assert (output.keys, output.shared_keys, output.desktops[0].keys) == (None, (), ())
    assert (output.customise, output.desktops[0].customise) == (None, None)
    assert "network" in asked and not {"keys", "shared_keys", "customise"} & set(asked)


def test_plan_closes_the_public_addresses_of_this_machine_as_they_are_now(
    stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stacks / "Pulumi.lab.yaml").write_text(GOOD)
    denied = []
    for now in (("203.0.113.7", "192.168.4.2"), ("203.0.113.9",)):
        monkeypatch.setattr(addresses, "addresses", lambda now=now: tuple(map(IPv4Address, now)))
        denied.append(set(declaration.read("lab").plan.gateway.settings.denied_networks))
    # A private address needs no rule of its own.
    assert denied[0] - denied[1] == {"203.0.113.7/32"}
    assert denied[1] - denied[0] == {"203.0.113.9/32"}


def test_plan_is_made_for_the_named_site(stacks: Path) -> None:
    (stacks / "Pulumi.lab.yaml").write_text(GOOD + "  deskyard:site: lab\n")
    (stacks / "sites").mkdir()
    (stacks / "sites" / "lab.yaml").write_text("domain: desks.example\n")
    assert declaration.read("lab").plan.gateway.url == "https://lab.desks.example:8443"


@pytest.mark.parametrize(
    ("content", "field", "remedy"),
    [
        (GOOD + "  deskyard:netwrok: x\n", "Pulumi.lab.yaml: netwrok", "network"),
        (GOOD.replace("dev1", "Dev_1"), "Pulumi.lab.yaml: desktops[0].name", "research-1"),
        (GOOD + "  deskyard:site: moon\n", "site", "create it"),
        (GOOD.replace("name: dev1", "{name: dev1, tier: huge}"), "desktops[0].tier", "free, pro, max"),
        ("config: [1]\n", "Pulumi.lab.yaml: config", "examples"),
    ],
    ids=["unknown key", "desktop name", "unknown site", "unknown tier", "no mapping"],
)
def test_mistakes_are_named_with_their_remedy(stacks: Path, content: str, field: str, remedy: str) -> None:
    (stacks / "Pulumi.lab.yaml").write_text(content)
    with pytest.raises(ConfigError) as caught:
        declaration.read("lab")
    assert caught.value.field == field
    assert remedy in caught.value.remedy


def test_an_unknown_workspace_is_answered_with_the_nearest_name(stacks: Path) -> None:
    (stacks / "Pulumi.research.yaml").write_text(GOOD)
    with pytest.raises(ConfigError, match=r"Pulumi\.reserch\.yaml") as caught:
        declaration.read("reserch")
    assert "'research'" in caught.value.remedy


def test_cluster_is_asked_for_the_templates_of_the_images_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(client, "connect", lambda _: None)
    monkeypatch.setattr(machines, "look", lambda _, digests, *__: asked.append(dict(digests)))
    monkeypatch.setattr(declaration, "image_names", lambda _: ["desktop", "gateway", "mine"])
    monkeypatch.setattr(store, "digests", lambda name: [f"{name}-digest"])
    desktops = [{"name": "a"}, {"name": "b", "image": "mine"}, {"name": "c", "image": "gone"}]
    values = {"name": "lab", "network": "10.80.1.0/24", "desktops": desktops}
    declaration.observe(Site(), Workspace.check(values, "test"))
    expected = {name: [f"{name}-digest"] for name in ("desktop", "gateway", "mine")}
    # A desktop may live on when its image is declared no more.
    assert asked == [{**expected, "gone": ()}]


def test_site_of_a_workspace_is_known_whatever_else_it_declares(stacks: Path) -> None:
    (stacks / "sites").mkdir()
    (stacks / "sites" / "lab.yaml").write_text("domain: desks.example\n")
    (stacks / "Pulumi.lab.yaml").write_text("config:\n  deskyard:site: lab\n  deskyard:tier: no such thing\n")
    assert declaration.site_of("lab").domain == "desks.example"
    for content in (GOOD, "", "config: 7\n"):
        (stacks / "Pulumi.lab.yaml").write_text(content)
        assert declaration.site_of("lab") == Site()
    with pytest.raises(ConfigError, match="does not exist"):
        declaration.site_of("labb")
