"""Stack files: read whole, mistakes named."""

from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.run import declaration

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
