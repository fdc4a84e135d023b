"""Waiting for a workspace."""

import time
from typing import Any

import pytest

from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness

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


@pytest.mark.parametrize(
    ("answer_seconds", "pause"), [(0.1, 4), (3, 9), (30, 15)], ids=["at once", "emulated", "hardly at all"]
)
def test_gateway_that_answers_slowly_is_asked_less_often(
    monkeypatch: pytest.MonkeyPatch, answer_seconds: float, pause: float
) -> None:
    now, answers, pauses = [0.0], [False, True], list[float]()

    def ask(_: WorkspacePlan) -> dict[str, Any]:
        now[0] += answer_seconds
        return {"ready": answers.pop(0)}

    monkeypatch.setattr(readiness, "ask", ask)
    monkeypatch.setattr(readiness, "machines_of", lambda _: Machines())
    monkeypatch.setattr(readiness, "stopped_machines", lambda _: [])
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert readiness.wait(PLAN) == {"ready": True}
    assert pauses == [pytest.approx(pause)]
