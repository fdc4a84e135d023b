"""Desktops are added to a declaration and taken out, and nothing else of it changes."""

from pathlib import Path

import pytest

from deskyard.declaration.declaration import check_content
from deskyard.declaration.desktop_list import declare, undeclare
from deskyard.errors import ConfigError
from deskyard.model.base import load_yaml

HEAD = """# what the team wrote
config:
  deskyard:network: 10.80.1.0/24   # ours
"""
BLOCK = (
    HEAD
    + """  deskyard:desktops:
    # the first
    - name: first
      tier: pro # large

    - name: second   # small

  # at the end
  deskyard:egress: open
"""
)
FLOW = HEAD + "  deskyard:desktops: [{name: first, tier: pro}, {name: second}]\n"
LAST = HEAD + "  deskyard:desktops:\n  - name: first\n  - {name: second}"


@pytest.fixture(params=[BLOCK, FLOW, LAST], ids=["block", "flow", "at the end"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "Pulumi.lab.yaml"
    path.write_text(request.param)
    return path


def names(path: Path) -> list[str]:
    workspace = check_content("lab", load_yaml(path), path.name)
    return [desktop.name for desktop in workspace.desktops]


def test_a_desktop_is_added_behind_the_others(stack: Path) -> None:
    assert declare(stack, {"name": "third", "tier": "max"})
    assert names(stack) == ["first", "second", "third"]
    assert not declare(stack, {"name": "third", "tier": "max"})


def test_adding_and_taking_out_leaves_every_other_line(stack: Path) -> None:
    before = stack.read_text()
    declare(stack, {"name": "third"})
    assert undeclare(stack, "third")
    assert stack.read_text().rstrip("\n") == before.rstrip("\n")


def test_a_desktop_is_taken_out_from_among_the_others(stack: Path) -> None:
    comments = [line for line in stack.read_text().splitlines() if line.lstrip().startswith("#")]
    assert undeclare(stack, "first")
    assert names(stack) == ["second"]
    assert not undeclare(stack, "first")
    after = stack.read_text().splitlines()
    assert [line for line in after if line.lstrip().startswith("#")] == comments


def test_the_only_desktop_stays(stack: Path) -> None:
    undeclare(stack, "first")
    before = stack.read_text()
    with pytest.raises(ConfigError, match=r"workspace\.destroy lab"):
        undeclare(stack, "second")
    assert stack.read_text() == before


def test_another_desktop_of_the_same_name_is_refused(stack: Path) -> None:
    before = stack.read_text()
    with pytest.raises(ConfigError, match="is declared otherwise in line"):
        declare(stack, {"name": "second", "tier": "max"})
    assert stack.read_text() == before


def test_a_desktop_that_the_model_refuses_changes_nothing(stack: Path) -> None:
    before = stack.read_text()
    with pytest.raises(ConfigError):
        declare(stack, {"name": "gateway"})
    assert stack.read_text() == before
    assert [path.name for path in stack.parent.iterdir()] == [stack.name]
