"""What a desktop holds is backed up and proved before it goes; what cannot be is said before anything is touched."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.errors import SiteError
from deskyard.life import power
from deskyard.life.backup import backup, final
from tests.unit.life.desk import TARGET, Desk
from tests.unit.life.machines import DEV1, PLAN

WITHOUT = "./inv workspace.destroy lab --no-backup"


class Stack:
    """What the engine remembers of workspace `lab`."""

    def __init__(self) -> None:
        self.there, self.machines, self.disks = True, {"dev1"}, set[str]()

    def __call__(self, _: str) -> "Stack":
        return self

    def exists(self) -> bool:
        return self.there

    def desktops_with_machines(self) -> set[str]:
        return set(self.machines)

    def desktops_with_disks(self) -> set[str]:
        return self.machines | self.disks


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Stack:
    stack = Stack()
    monkeypatch.setattr(final, "WorkspaceStack", stack)
    return stack


def listed() -> list[bool]:
    return [row["verified"] is not None for row in backup.listing(TARGET)["backups"]]


def test_what_a_desktop_holds_is_backed_up_and_verified(
    desk: Desk, stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    (said,) = final.notice("lab", final.held("lab")[0], WITHOUT, backup=True)
    assert said.startswith("dev1: backed up to ") and "snapshots are lost" in said
    assert listed() == []
    final.keep("lab", final.held("lab")[0], WITHOUT)
    assert listed() == [True]
    assert "dev1: its last backup is " in capsys.readouterr().err
    # Another is made each time: nobody knows what happened since.
    final.keep("lab", final.held("lab")[0], WITHOUT)
    assert listed() == [True, True]


def test_data_of_which_no_backup_can_be_made_does_not_go_unless_it_is_to_have_none(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.disks = {"dev1", "dev2"}
    assert final.held("lab") == (["dev1"], ["dev2"])
    with pytest.raises(SiteError, match=r"there is none of dev2, whose data would go\n.*workspace\.up lab"):
        final.require_kept("lab", ["dev2"], [], WITHOUT)
    final.require_kept("lab", ["dev2"], ["dev2"], WITHOUT)
    never = SimpleNamespace(desktops=[replace(desktop, backup="never") for desktop in PLAN.desktops])
    monkeypatch.setattr(declaration, "read", lambda _: SimpleNamespace(plan=never))
    final.require_kept("lab", [PLAN.desktops[0].name], [], WITHOUT)


def test_where_nothing_is_there_nothing_is_backed_up(desk: Desk, stack: Stack) -> None:
    stack.machines = set()
    final.keep("lab", final.held("lab")[0], WITHOUT)
    stack.there, stack.machines = False, {"dev1"}
    assert final.held("lab")[0] == []
    assert listed() == []


def test_without_a_backup_it_is_said_what_is_lost_and_nothing_is_asked(desk: Desk, stack: Stack) -> None:
    desk.reader = "false"
    (said,) = final.notice("lab", ["dev1", "dev2"], WITHOUT, backup=False)
    assert said.startswith("dev1, dev2: no backup is made before (--no-backup)") and "is lost" in said


def test_one_that_is_declared_never_to_be_backed_up_is_left_out_and_named(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = PLAN.desktops
    planned = replace(PLAN, desktops=(first, replace(second, backup="never")))
    monkeypatch.setattr(declaration, "read", lambda _: SimpleNamespace(plan=planned))
    kept, lost = final.notice("lab", ["dev1", "dev2"], WITHOUT, backup=True)
    assert kept.startswith("dev1: backed up to ")
    assert lost.startswith("dev2: no backup is made before (backup: never)")
    final.keep("lab", ["dev1", "dev2"], WITHOUT)
    assert [row["desktop"] for row in backup.listing(TARGET)["backups"]] == ["dev1"]
    # Of none of them anything is asked.
    desk.reader = "false"
    monkeypatch.setattr(final, "_checked", None)
    final.keep("lab", ["dev2"], WITHOUT)
    assert len(final.notice("lab", ["dev2"], WITHOUT, backup=True)) == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"reader": "head -c 100"}, "100 bytes came"),
        ({"boots": False}, "did not boot"),
        ({"wrong": ["/ is read-only"]}, "read-only"),
        ({"kept": True}, "a restore was interrupted"),
    ],
)
def test_one_that_fails_or_is_not_proved_says_how_to_do_without(
    desk: Desk, stack: Stack, fault: dict[str, Any], reason: str
) -> None:
    for name, value in fault.items():
        setattr(desk, name, value)
    with pytest.raises(SiteError, match=reason) as caught:
        final.keep("lab", ["dev1"], WITHOUT)
    assert (caught.value.field, caught.value.value) == ("last backup", TARGET)
    assert caught.value.remedy.endswith(f"or without a backup: {WITHOUT}")
    assert True not in listed()


def test_one_that_can_be_known_to_fail_is_refused_before_any_is_made(desk: Desk, stack: Stack) -> None:
    power.pause(TARGET)
    with pytest.raises(SiteError, match="is paused"):
        final.keep("lab", ["dev2", "dev1"], WITHOUT)
    desk.machines.now[DEV1] = "stopped"
    with pytest.raises(SiteError, match="nothing was ever written into it"):
        final.notice("lab", ["dev1"], WITHOUT, backup=True)
    assert listed() == []


def test_a_desktop_that_is_off_is_proved_by_what_it_was_given_before(desk: Desk, stack: Stack) -> None:
    backup.run(TARGET)
    power.stop(TARGET)
    final.keep("lab", ["dev1"], WITHOUT)
    assert listed() == [False, True]


def test_a_place_that_is_not_there_is_named_with_the_way_without(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: Any) -> Any:
        raise SiteError("proxmox.storages.backups", None, "no storage of the site takes backups", "name one")

    monkeypatch.setattr(final, "vault_of", lambda *_: SimpleNamespace(present=nowhere))
    with pytest.raises(SiteError, match="no storage of the site takes backups") as caught:
        final.notice("lab", ["dev1"], WITHOUT, backup=True)
    assert caught.value.remedy == f"name one; or without a backup: {WITHOUT}"


def test_a_desktop_that_is_declared_no_more_is_backed_up_too(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.machines, stack.disks = {"dev1", "dev2"}, {"dev1", "dev3", "dev4"}
    monkeypatch.setattr(type(PLAN), "machines", lambda _: {})
    declared = SimpleNamespace(persistent=lambda: [SimpleNamespace(name="dev2")])
    monkeypatch.setattr(declaration, "read_workspace", lambda _: declared)
    # One that is still declared stays, and one that is not named: `up` says so.
    assert final.removed("lab", ["dev1", "dev2", "dev3", "dev5"]) == (["dev1"], ["dev3"])
    assert final.removed("lab", []) == ([], [])
    assert final.held("lab")[0] == ["dev1", "dev2"]
    final.keep("lab", ["dev1"], WITHOUT)
    (made,) = backup.listing(TARGET)["backups"]
    assert made["verified"] is not None


def test_another_task_at_the_desktop_is_not_waited_for(desk: Desk, stack: Stack) -> None:
    with power.opened(TARGET).alone(), pytest.raises(SiteError, match="another task holds it"):
        final.keep("lab", ["dev1"], WITHOUT)
    assert listed() == []
