"""A workspace goes with the desktops that were named and no other, each backed up once, whoever is killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.declaration import declaration, stack_file
from deskyard.errors import ConfigError, SiteError
from deskyard.life import removal
from deskyard.life.backup import final
from deskyard.workspace import workspace
from tests.control.founded import Machines, environment, stand_in
from tests.control.founded import Stack as Remembered

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


def test_one_that_is_made_after_the_look_keeps_all_machines(
    machines: Machines, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = machines.keep

    def slow(name: str, desktops: list[str], without: str) -> dict[str, str]:
        machines.make("lab", ["meanwhile"])
        return keep(name, desktops, without)

    monkeypatch.setattr(final, "keep", slow)
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
