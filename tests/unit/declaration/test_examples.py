"""The examples are good declarations, and can be used together as they say."""

from itertools import combinations
from pathlib import Path

import pytest

from deskyard.declaration import declaration
from deskyard.host.places import tree
from tests.support.paper_cluster import PaperCluster

EXAMPLES = sorted((tree() / "examples").glob("*/Pulumi.*.yaml"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_example_can_be_planned(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setenv("DESKYARD_STACKS", str(path.parent))
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    # What a cluster shows has to be asked for: here it is one on paper.
    monkeypatch.setattr(declaration, "observe", lambda *_: PaperCluster().view())
    name = path.name.split(".")[1]
    assert declaration.read(name).plan.desktops


def test_workspaces_of_all_examples_can_stand_beside_each_other_at_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """The README brings up a second one beside that of `demo`."""
    workspaces = []
    for path in EXAMPLES:
        monkeypatch.setenv("DESKYARD_STACKS", str(path.parent))
        workspaces.append(declaration.read_workspace(path.name.split(".")[1]))
    for first, other in combinations(workspaces, 2):
        if first.site == other.site:
            assert not first.network.overlaps(other.network), (first.name, other.name)
            assert first.gateway_port != other.gateway_port, (first.name, other.name)
