"""Waiting for a workspace."""

import pytest

from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from deskyard.run import readiness
from deskyard.run.ssh_link import SshLink

DESKTOPS = ("dev1", "dev2")
PLAN = plan_workspace(
    Workspace.check(
        {"name": "lab", "network": "10.80.1.0/24", "desktops": [{"name": name} for name in DESKTOPS]}, "test"
    ),
    Site(),
    "tcg",
)


class Machines:
    """Machines whose agents tell their keys."""

    def host_key(self, domain: str) -> str:
        """Its name stands for it."""
        return domain


@pytest.mark.parametrize(
    ("pinned", "looks"), [(set(), 1), ({"dev1"}, 1), (set(DESKTOPS), 0)], ids=["none", "one", "all"]
)
def test_the_machines_are_looked_at_only_while_a_desktop_is_not_pinned(
    monkeypatch: pytest.MonkeyPatch, pinned: set[str], looks: int
) -> None:
    looked: list[WorkspacePlan] = []
    keys: dict[str, str] = {}

    def look(plan: WorkspacePlan) -> Machines:
        looked.append(plan)
        return Machines()

    monkeypatch.setattr(readiness, "machines_of", look)
    monkeypatch.setattr(SshLink, "pin", lambda _, host, key: keys.update({host: key}))
    seen = readiness._Seen(set(pinned), set())
    readiness._pin_desktops(PLAN, seen)
    assert len(looked) == looks
    assert keys == {name: f"deskyard-lab.{name}" for name in DESKTOPS if name not in pinned}
    assert seen.pinned == set(DESKTOPS)
