"""A workspace goes with the desktops that were named and no other, each backed up once, whoever is killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deskyard.declaration import declaration, stack_file
from deskyard.errors import ConfigError, HostError, SiteError
from deskyard.host.lock import alone
from deskyard.life import removal
from deskyard.life.backup import final
from deskyard.plan.pool.seat import Claim
from deskyard.workspace import turn, workspace
from deskyard.workspace.seats import Seats
from tests.control.founded import Found, Machines, environment, stand_in
from tests.control.founded import Stack as Remembered
from tests.unit.workspace.disposables import Disposables, declared

BOTH = ["dev1", "dev2"]
DECLARATION = """config:
  deskyard:network: 10.80.4.0/24
  deskyard:desktops: [{name: dev1}, {name: dev2}]
"""


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    found = stand_in(tmp_path, monkeypatch.setattr)
    declaration.stack_file("lab").write_text(DECLARATION)
    found.make("lab", BOTH)
    return found


@pytest.fixture
def steps(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    monkeypatch.setattr(machines, "step", lambda what, about: seen.append(f"{what} {about}"))
    return seen


def killed_at(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, when: Callable[[int], bool]) -> None:
    """Have a function interrupted before it does what it is called for, at some of its calls."""
    real, calls = getattr(place, name), [0]

    def function(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        if when(calls[0]):
            raise KeyboardInterrupt
        return real(*args, **named)

    monkeypatch.setattr(place, name, function)


ALL = ["backed up lab.dev1", "backed up lab.dev2", "destroyed lab.dev1", "destroyed lab.dev2"]


def test_each_desktop_is_backed_up_before_any_goes_and_the_declaration_is_put_away(steps: list[str]) -> None:
    done = removal.remove("lab", BOTH, "op_1")
    assert steps == ALL
    assert done["last_backups"] == {"dev1": "dev1-0001", "dev2": "dev2-0001"}
    assert declaration.stack_names() == []
    place = declaration.stack_file("lab").parent / done["declaration"]
    assert (place.parent.name, place.read_text()) == ("removed", DECLARATION)


@pytest.mark.parametrize("more", ["declared", "left", "task"])
def test_one_that_was_not_named_keeps_all_of_it(machines: Machines, steps: list[str], more: str) -> None:
    if more == "declared":
        declaration.stack_file("lab").write_text(DECLARATION.replace("{name: dev2}", "{name: dev2}, {name: declared}"))
    elif more == "left":
        machines.make("lab", ["left"])
    else:
        (machines.folder / "in-use" / "lab").mkdir(parents=True)
        (machines.folder / "in-use" / "lab" / "task").touch()
    with pytest.raises(ConfigError, match=f"were not named: {more}"):
        removal.remove("lab", BOTH, "op_1")
    assert (steps, declaration.stack_names()) == ([], ["lab"])
    removal.remove("lab", [*BOTH, more], "op_2")
    assert declaration.stack_names() == []


def made_during_a_backup(machines: Machines, desktop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have somebody make a machine while a last backup is made."""
    keep = machines.keep

    def slow(name: str, desktops: list[str], without: str) -> dict[str, str]:
        machines.make("lab", [desktop])
        return keep(name, desktops, without)

    monkeypatch.setattr(final, "keep", slow)


def test_one_that_is_made_after_the_look_keeps_all_machines(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_during_a_backup(machines, "meanwhile", monkeypatch)
    with pytest.raises(ConfigError, match="were not named: meanwhile"):
        removal.remove("lab", BOTH, "op_1")
    assert machines.there("lab") == {*BOTH, "meanwhile"}
    assert declaration.stack_names() == ["lab"]


def test_a_backup_that_fails_leaves_every_machine_and_can_be_asked_again(machines: Machines, steps: list[str]) -> None:
    declaration.stack_file("lab").write_text(DECLARATION.replace("dev2", "mute"))
    machines.remove("lab", "dev2")
    machines.make("lab", ["mute"])
    with pytest.raises(SiteError, match="did not boot") as refused:
        removal.remove("lab", ["dev1", "mute"], "op_1")
    assert "./inv workspace.destroy lab --no-backup" in refused.value.remedy
    assert (machines.there("lab"), declaration.stack_names()) == ({"dev1", "mute"}, ["lab"])
    # Another removal trusts no backup of before: dev1 has run since.
    with pytest.raises(SiteError, match="did not boot"):
        removal.remove("lab", ["dev1", "mute"], "op_2")
    assert steps == ["backed up lab.dev1", "backed up lab.mute"] * 2


@pytest.mark.parametrize(
    ("place", "name", "call"),
    [
        (final, "keep", 1),
        (final, "keep", 2),
        (workspace, "destroy", 1),
        (Remembered, "check_passphrase", 1),
        (Machines, "remove", 1),
        (Machines, "remove", 2),
        (stack_file, "put_away", 1),
    ],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_what_is_killed_goes_on_and_makes_no_backup_twice(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch, place: Any, name: str, call: int
) -> None:
    with monkeypatch.context() as within:
        killed_at(within, place, name, lambda number: number == call)
        with pytest.raises(KeyboardInterrupt):
            removal.remove("lab", BOTH, "op_1")
    assert declaration.stack_names() == ["lab"]
    removal.remove("lab", BOTH, "op_1")
    assert [step for step in steps if step.startswith("backed up")] == ALL[:2]
    assert (machines.there("lab"), declaration.stack_names()) == (set(), [])


def test_a_removal_that_failed_half_way_can_be_asked_again(machines: Machines, steps: list[str]) -> None:
    declaration.stack_file("lab").write_text(DECLARATION.replace("dev1", "aaa").replace("dev2", "stuck"))
    for name in BOTH:
        machines.remove("lab", name)
    machines.make("lab", ["aaa", "stuck", "zzz"])
    named = ["aaa", "stuck", "zzz"]
    with pytest.raises(SiteError, match="is held by a program"):
        removal.remove("lab", named, "op_1")
    assert (machines.there("lab"), declaration.stack_names()) == ({"zzz"}, ["lab"])
    (machines.folder / "mended").touch()
    removal.remove("lab", named, "op_2")
    # What is left has run since; what is gone has its backup.
    assert steps[-2:] == ["backed up lab.zzz", "destroyed lab.zzz"]
    assert declaration.stack_names() == []


def test_a_desktop_that_nobody_declares_is_backed_up_again_by_the_next_removal(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.make("lab", ["left"])
    with monkeypatch.context() as within:
        killed_at(within, Remembered, "check_passphrase", lambda number: number == 1)
        with pytest.raises(KeyboardInterrupt):
            removal.remove("lab", [*BOTH, "left"], "op_1")
    # It runs on.
    removal.remove("lab", [*BOTH, "left"], "op_2")
    assert [step for step in steps if step.startswith("backed up")] == [*ALL[:2], "backed up lab.left"] * 2


def test_a_machine_of_which_nobody_can_tell_whether_it_is_there_counts_as_there(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_found: Found, _desktop: str) -> bool:
        raise SiteError("hypervisor", "qemu:///system", "does not answer", "run ./inv site.up")

    monkeypatch.setattr(Found, "is_there", silent)
    with monkeypatch.context() as within:
        killed_at(within, Machines, "remove", lambda number: number == 1)
        with pytest.raises(KeyboardInterrupt):
            removal.remove("lab", BOTH, "op_1")
    removal.remove("lab", BOTH, "op_2")
    assert [step for step in steps if step.startswith("backed up")] == ALL[:2] * 2


def test_what_the_engine_still_knows_of_a_machine_that_went_behind_its_backup_is_not_backed_up(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as within:
        killed_at(within, Machines, "remove", lambda number: number == 2)
        with pytest.raises(KeyboardInterrupt):
            removal.remove("lab", BOTH, "op_1")
    remembered = Remembered.desktops_with_machines
    monkeypatch.setattr(Remembered, "desktops_with_machines", lambda stack: remembered(stack) | {"dev1"})
    removal.remove("lab", BOTH, "op_2")
    assert [step for step in steps if step.startswith("backed up")] == [*ALL[:2], "backed up lab.dev2"]


def leave_disk(machines: Machines, desktop: str) -> Path:
    """What a run that broke off leaves: a desktop's data without a machine."""
    machines.remove("lab", desktop)
    disk = machines.folder / "disks" / "lab" / desktop
    disk.parent.mkdir(parents=True, exist_ok=True)
    disk.touch()
    return disk


def test_data_without_a_machine_is_named_and_does_not_go_without_a_backup(machines: Machines, steps: list[str]) -> None:
    disk = leave_disk(machines, "dev2")
    refused = r"none of dev2, whose data would go\n.*workspace\.up lab"
    with pytest.raises(SiteError, match=refused):
        removal.preview("lab")
    with pytest.raises(SiteError, match=refused):
        removal.remove("lab", BOTH, "op_1")
    leave_disk(machines, "undeclared")
    with pytest.raises(ConfigError, match="were not named: undeclared"):
        removal.remove("lab", BOTH, "op_1")
    assert (steps, machines.there("lab"), declaration.stack_names()) == ([], {"dev1"}, ["lab"])
    declaration.stack_file("lab").write_text(DECLARATION.replace("{name: dev2}", "{name: dev2, backup: never}"))
    (disk.parent / "undeclared").unlink()
    assert removal.preview("lab")["desktops"] == BOTH
    removal.remove("lab", BOTH, "op_1")
    assert steps == ["backed up lab.dev1", "destroyed lab.dev1"]


def test_data_that_loses_its_machine_or_gets_one_during_the_backups_stays(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.remove("lab", "dev2")
    made_during_a_backup(machines, "dev2", monkeypatch)
    with pytest.raises(SiteError, match="none of dev2, whose data would go"):
        removal.remove("lab", BOTH, "op_1")
    assert machines.there("lab") == {*BOTH}


def test_a_disk_that_a_killed_removal_left_goes_since_it_has_its_backup(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as within:
        killed_at(within, Machines, "remove", lambda number: number == 2)
        with pytest.raises(KeyboardInterrupt):
            removal.remove("lab", BOTH, "op_1")
    leave_disk(machines, "dev1")
    removal.remove("lab", BOTH, "op_2")
    assert [step for step in steps if step.startswith("backed up")] == [*ALL[:2], "backed up lab.dev2"]


def test_a_backup_of_a_removal_that_failed_before_its_machine_went_counts_no_more(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as within:
        killed_at(within, Remembered, "check_passphrase", lambda number: number == 1)
        with pytest.raises(KeyboardInterrupt):
            removal.remove("lab", BOTH, "op_1")
    # Months later.
    leave_disk(machines, "dev1")
    with pytest.raises(SiteError, match="none of dev1, whose data would go"):
        removal.remove("lab", BOTH, "op_2")
    assert (steps, machines.there("lab")) == (ALL[:2], {"dev2"})


def test_one_that_was_declared_meanwhile_keeps_the_declaration(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    destroy = Remembered.destroy
    text = DECLARATION.replace("{name: dev2}", "{name: dev2}, {name: dev3}")

    def edited(stack: Remembered) -> None:
        destroy(stack)
        declaration.stack_file("lab").write_text(text)

    monkeypatch.setattr(Remembered, "destroy", edited)
    with pytest.raises(ConfigError, match="were not named: dev3"):
        removal.remove("lab", BOTH, "op_1")
    assert declaration.stack_file("lab").read_text() == text


def test_nobody_else_has_the_turn_until_the_declaration_is_put_away(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_away = stack_file.put_away

    def looked_at(path: Path) -> Path:
        with pytest.raises(HostError), alone("machines-local-lab", at_once=True):
            pass
        return put_away(path)

    monkeypatch.setattr(stack_file, "put_away", looked_at)
    removal.remove("lab", BOTH, "op_1")
    assert declaration.stack_names() == []
    with alone("machines-local-lab", at_once=True):
        pass


def test_a_machine_that_was_made_while_the_end_waited_for_its_turn_is_not_forgotten(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by an `up` at a shell, of a workspace that had no machines."""
    for name in BOTH:
        machines.remove("lab", name)
    (machines.folder / "machines" / "lab").rmdir()
    whole = turn.whole

    @contextmanager
    def late(site: str, name: str) -> Iterator[None]:
        with whole(site, name):
            machines.make("lab", BOTH)
            yield

    monkeypatch.setattr(turn, "whole", late)
    with pytest.raises(SiteError, match="none of dev1, dev2, whose data would go"):
        removal.remove("lab", BOTH, "op_1")
    assert (machines.there("lab"), declaration.stack_names()) == ({*BOTH}, ["lab"])


def test_a_seat_that_somebody_gets_during_the_backups_keeps_the_workspace(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the ledger of its seats, as a task claims one."""
    disposables = Disposables(machines.folder / "seats")
    seats, keep = Seats("local", "lab", disposables), machines.keep
    monkeypatch.setattr(machines, "disposables", lambda: disposables)

    def slow(name: str, desktops: list[str], without: str) -> dict[str, str]:
        if not seats.claimed():
            made = declared(1)
            begun = seats.begin(made, made.plan.seat("s1"), Claim("me", 4e9))
            disposables.make(made.plan, made.plan.seat("s1"), None, None, None)  # type: ignore[arg-type]
            seats.ready(begun)
        return keep(name, desktops, without)

    monkeypatch.setattr(final, "keep", slow)
    with pytest.raises(ConfigError, match="were not named: s1"):
        removal.remove("lab", BOTH, "op_1")
    assert (machines.there("lab"), seats.claimed(), disposables.removed) == ({*BOTH}, ["s1"], [])
    removal.remove("lab", [*BOTH, "s1"], "op_2")
    assert disposables.removed == ["s1"]


def test_one_that_never_came_up_goes_without_a_backup(machines: Machines, steps: list[str]) -> None:
    for name in BOTH:
        machines.remove("lab", name)
    (machines.folder / "machines" / "lab").rmdir()
    removal.remove("lab", BOTH, "op_1")
    assert (steps, declaration.stack_names()) == ([], [])


def test_a_preview_tells_what_is_lost_and_touches_nothing(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "remnants", lambda _: ["dev1: a trial"])
    rows = {"lab/dev1": [{"name": "before"}, {"name": "after"}]}
    monkeypatch.setattr("deskyard.life.snapshot.listing", lambda target: {"snapshots": rows.get(target, [])})
    machines.make("lab", ["left"])
    (machines.folder / "in-use" / "lab").mkdir(parents=True)
    (machines.folder / "in-use" / "lab" / "s1").touch()
    assert removal.preview("lab") == {
        "desktops": ["dev1", "dev2", "left", "s1"],
        "tasks": ["s1"],
        "notice": ["lab: dev1 dev2 left"],
        "stays": ["lab: none"],
        "goes_too": ["dev1: a trial"],
        "snapshots": {"dev1": ["before", "after"]},
    }
    assert steps == []
    assert machines.there("lab") == {*BOTH, "left"}
