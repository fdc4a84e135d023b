"""A worker's child pauses a desktop and lets it go on by the functions of the host's tasks."""

from functools import partial
from typing import Any

import pytest

from deskyard.control.jobs.child import JOBS


@pytest.mark.parametrize(
    ("kind", "given", "asked"),
    [
        ("desktop.pause", {}, ("pause", "lab/dev", {"to_disk": False})),
        ("desktop.pause", {"to_disk": True}, ("pause", "lab/dev", {"to_disk": True})),
        ("desktop.resume", {}, ("start", "lab/dev", {})),
    ],
)
def test_the_machine_is_moved_as_the_task_does(
    monkeypatch: pytest.MonkeyPatch, kind: str, given: dict[str, Any], asked: tuple[str, str, dict[str, bool]]
) -> None:
    seen: list[tuple[str, str, dict[str, bool]]] = []

    def moved(name: str, target: str, **how: bool) -> dict[str, Any]:
        seen.append((name, target, how))
        return {"workspace": "lab", "machines": []}

    for name in ("pause", "start"):
        monkeypatch.setattr(f"deskyard.life.power.{name}", partial(moved, name))
    done = JOBS[kind]({"kind": kind, "workspace": "lab", "desktop": "lab.dev", "input": given})
    assert (seen, done) == ([asked], {"result": {"workspace": "lab", "machines": []}})


def test_the_system_is_exchanged_for_the_image_that_was_signed_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def upgrade(target: str, **how: Any) -> dict[str, Any]:
        asked.append((target, how))
        return {"workspace": "lab", "machines": [], "before": "desktop-old", "after": "desktop-new", "kept": []}

    monkeypatch.setattr("deskyard.life.system.upgrade", upgrade)
    wanted = {"workspace": "lab", "desktop": "lab.dev", "input": {"image": "desktop-new", "packages": True}}
    answer = {"result": {"before": "desktop-old", "after": "desktop-new", "kept": []}}
    assert JOBS["desktop.upgrade"]({**wanted, "kind": "desktop.upgrade"}) == answer
    assert JOBS["upgrade.preview"]({**wanted, "kind": "upgrade.preview"}) == answer
    assert asked == [("lab/dev", {"packages": True, "only": "desktop-new"}), ("lab/dev", {"dry_run": True})]
