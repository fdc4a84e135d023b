"""workspace.destroy and workspace.up --remove back up what goes, say what is lost, and stop if that fails."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.declaration import declaration
from deskyard.errors import SiteError
from deskyard.life.backup import backup, final
from deskyard.tasks import workspace as tasks
from deskyard.workspace import workspace


class Leaving:
    """What was done, in order; `fault` is how backups fail."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.there, self.alone, self.fault = ["dev1"], list[str](), ""

    def notice(self, _: str, desktops: Sequence[str], without: str, *, backup: bool) -> list[str]:
        self.done.append(("say", *desktops, backup))
        if self.fault == "known":
            raise SiteError("last backup", "lab/dev1", "it is paused", f"resume it; or without a backup: {without}")
        return ["what becomes of it"] if desktops else []

    def keep(self, _: str, desktops: Sequence[str], without: str) -> dict[str, str]:
        self.done.append(("keep", *desktops))
        if self.fault == "later":
            raise SiteError("last backup", "lab/dev1", "did not boot", f"look; or without a backup: {without}")
        return dict.fromkeys(desktops, "b1")


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> Leaving:
    """Workspace `lab` with a desktop."""
    leaving = Leaving()
    monkeypatch.setattr(backup, "survivors", lambda _: ["dev1: no backup"])
    monkeypatch.setattr(workspace, "remnants", lambda _: [])
    monkeypatch.setattr(workspace, "destroy", lambda name: leaving.done.append(f"destroy {name}"))
    monkeypatch.setattr(final, "held", lambda _: (list(leaving.there), list(leaving.alone)))
    monkeypatch.setattr(final, "_wanted", lambda _, desktops, __: list(desktops))
    monkeypatch.setattr(declaration, "read_workspace", lambda _: SimpleNamespace(persistent=lambda: []))
    monkeypatch.setattr(final, "notice", leaving.notice)
    monkeypatch.setattr(final, "keep", leaving.keep)

    def up(_name: str, _timings: Any, remove: Sequence[str], **_: Any) -> dict[str, Any]:
        leaving.done.append(f"up without {' '.join(remove)}")
        gateway = {"state": "running", "desired": "running", "ready": True, "error": None}
        return {"workspace": "lab", "url": "x", "ready": True, "gateway": gateway, "desktops": [], "seats": []}

    monkeypatch.setattr(workspace, "up", up)
    return leaving


def test_data_without_a_machine_to_back_it_up_by_is_named_and_goes_without_a_backup_alone(leaving: Leaving) -> None:
    leaving.alone = ["bare"]
    with pytest.raises(Exit):
        tasks.destroy(Context(), "lab", yes=True)
    assert leaving.done == []
    tasks.destroy(Context(), "lab", yes=True, backup=False)
    assert leaving.done == [("say", "bare", "dev1", False), "destroy lab"]


def test_data_without_a_machine_is_removed_without_a_backup_alone(
    leaving: Leaving, capsys: pytest.CaptureFixture[str]
) -> None:
    leaving.alone = ["bare", "another"]
    with pytest.raises(Exit):
        tasks.up(Context(), "lab", remove=["dev1", "bare"])
    assert leaving.done == []
    said = capsys.readouterr().err
    assert "there is none of bare, whose data would go" in said
    assert "./inv workspace.up lab --remove bare --remove dev1 --no-backup" in said
    tasks.up(Context(), "lab", remove=["dev1", "bare"], backup=False)
    assert leaving.done == [("say", "bare", "dev1", False), "up without dev1 bare"]


def test_a_workspace_is_backed_up_before_it_is_destroyed(leaving: Leaving) -> None:
    tasks.destroy(Context(), "lab", yes=True)
    assert leaving.done == [("say", "dev1", True), ("keep", "dev1"), "destroy lab"]


def test_without_a_backup_it_is_only_said_what_is_lost(leaving: Leaving) -> None:
    tasks.destroy(Context(), "lab", yes=True, backup=False)
    assert leaving.done == [("say", "dev1", False), "destroy lab"]


@pytest.mark.parametrize("fault", ["known", "later"])
def test_a_backup_that_fails_destroys_nothing(leaving: Leaving, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    leaving.fault = fault
    with pytest.raises(Exit):
        tasks.destroy(Context(), "lab", yes=True)
    assert "destroy lab" not in leaving.done
    assert "./inv workspace.destroy lab --no-backup" in capsys.readouterr().err


def test_what_would_be_is_said_and_nothing_done(leaving: Leaving, capsys: pytest.CaptureFixture[str]) -> None:
    tasks.destroy(Context(), "lab", dry_run=True)
    assert leaving.done == [("say", "dev1", True)]
    said = capsys.readouterr().err
    assert "dev1: no backup" in said and "what becomes of it" in said


@pytest.mark.parametrize(
    ("how", "destroyed", "kept"),
    [({"yes": True}, True, {"dev1": "b1"}), ({"yes": True, "backup": False}, True, {}), ({"dry_run": True}, False, {})],
)
def test_what_was_done_is_told_as_json(
    leaving: Leaving, capsys: pytest.CaptureFixture[str], how: dict[str, bool], destroyed: bool, kept: dict[str, str]
) -> None:
    tasks.destroy(Context(), "lab", json=True, **how)
    found = json.loads(capsys.readouterr().out)
    assert (found["destroyed"], found["last_backups"], found["desktops"]) == (destroyed, kept, ["dev1"])
    assert (found["stays"], found["notice"]) == (["dev1: no backup"], ["what becomes of it"])


def test_nothing_is_backed_up_before_it_was_confirmed(leaving: Leaving) -> None:
    with pytest.raises(Exit):
        tasks.destroy(Context(), "lab")
    assert leaving.done == [("say", "dev1", True)]


def test_a_workspace_without_machines_has_nothing_to_back_up(leaving: Leaving) -> None:
    leaving.there = []
    tasks.destroy(Context(), "lab", yes=True)
    assert leaving.done == [("say", True), ("keep",), "destroy lab"]


def test_a_desktop_that_is_removed_is_backed_up_before(leaving: Leaving, capsys: pytest.CaptureFixture[str]) -> None:
    tasks.up(Context(), "lab", remove=["dev1"])
    assert leaving.done == [("say", "dev1", True), ("keep", "dev1"), "up without dev1"]
    leaving.done.clear()
    tasks.up(Context(), "lab", remove=["dev1"], backup=False)
    assert leaving.done == [("say", "dev1", False), "up without dev1"]
    leaving.done.clear()
    tasks.up(Context(), "lab")
    assert leaving.done == ["up without "]
    leaving.done, leaving.fault = [], "later"
    with pytest.raises(Exit):
        tasks.up(Context(), "lab", remove=["dev1"])
    assert "up without dev1" not in leaving.done
    assert "./inv workspace.up lab --remove dev1 --no-backup" in capsys.readouterr().err
