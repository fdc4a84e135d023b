"""Desktops are added to a declaration and taken out, and nothing else of it changes."""

from pathlib import Path

import pytest

from deskyard.declaration.declaration import check_content
from deskyard.declaration.desktop_list import TakenOut, declare, put_back, require_others, undeclare
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


BARE = BLOCK.replace("deskyard:", "")


@pytest.fixture(params=[BLOCK, FLOW, LAST, BARE], ids=["block", "flow", "at the end", "bare keys"])
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


def taken_out(stack: Path, name: str) -> TakenOut:
    """A desktop that is not declared any more; what it says was kept before the file changed."""
    before, kept = stack.read_text(), list[TakenOut]()

    def keep(found: TakenOut) -> None:
        assert stack.read_text() == before
        kept.append(found)

    assert undeclare(stack, name, keep)
    return kept[0]


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_desktop_that_is_put_back_stands_as_it_was_written(stack: Path, name: str) -> None:
    before = stack.read_text()
    found = taken_out(stack, name)
    assert name not in names(stack)
    assert put_back(stack, found)
    assert stack.read_text() == before
    assert not put_back(stack, found)


def test_a_desktop_is_put_back_beside_what_was_written_meanwhile(stack: Path) -> None:
    found = taken_out(stack, "first")
    declare(stack, {"name": "third"})
    meanwhile = stack.read_text()
    assert put_back(stack, found)
    assert names(stack) == ["second", "third", "first"]
    workspace = check_content("lab", load_yaml(stack), stack.name)
    assert [desktop.tier for desktop in workspace.desktops if desktop.name == "first"] == [
        "free" if "tier: pro" not in found.before else "pro"
    ]
    undeclare(stack, "first")
    assert stack.read_text().rstrip("\n") == meanwhile.rstrip("\n")


def test_the_only_desktop_stays(stack: Path) -> None:
    undeclare(stack, "first")
    before = stack.read_text()
    with pytest.raises(ConfigError, match=r"workspace\.destroy lab"):
        undeclare(stack, "second")
    with pytest.raises(ConfigError, match="the only one"):
        require_others(stack, "second")
    require_others(stack, "first")
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
