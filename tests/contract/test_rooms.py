"""Imports go down only: the order of the rooms, and no circles within one."""

import ast
import functools
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from deskyard.lab.changed_tests import imported
from tests.support.sources import parsed

TREE = Path(__file__).resolve().parents[2]

# From the ground up: a room may import those before it.
ORDER = (
    "errors",
    "wire",
    "gateway",
    "computer",
    "guest",
    "model",
    "plan",
    "host",
    "site",
    "image",
    "declaration",
    "stacks",
    "engine",
    "desktop",
    "access",
    "workspace",
    "life",
    "agent",
    "isolation",
    "control",
    "lab",
    "tasks",
)
# The same within Mission Control, by folder; docs/architecture.md says what each is for.
CONTROL = "deskyard.control"
CONTROL_ORDER = (
    "ground",
    "store",
    "store.versions",
    "recorder",
    "people",
    "usage",
    "queue",
    "anchors",
    "opening",
    "halting",
    "api.forms",
    "api",
    "answers",
    "asked",
    "quotas",
    "retention",
    "identity",
    "credentials",
    "machines",
    "approvals",
    "transcripts",
    "questions",
    "founding",
    "tasks",
    "upkeep",
    "consent",
    "link",
    "watch",
    "jobs",
    "e2b",
    "process",
    "web.watch",
    "web",
    # What brings it up as a whole: modules of no folder.
    "",
)
# What runs inside a machine: the most that it may import.
INSIDE = {"gateway": {"errors", "wire"}, "computer": {"errors", "wire"}, "guest": set[str]()}
# Who reads what a gateway makes of its settings, so that nothing is written down twice.
ASKS_THE_GATEWAY = {"isolation", "lab"}
MOST_FILES = 17
# Grow by a file for each change of the database's tables, and are read in that order.
MIGRATIONS = "deskyard/control/store/versions"


@functools.cache
def modules() -> Mapping[str, ast.Module]:
    """Every module of the tree's own packages, by its dotted name; read once for all tests."""
    paths = (path for package in ("deskyard", "stacks") for path in sorted((TREE / package).rglob("*.py")))
    return {
        ".".join(path.relative_to(TREE).with_suffix("").parts).removesuffix(".__init__"): parsed(path) for path in paths
    }


def room(module: str) -> str | None:
    """The room that a module stands in; None for what is not ours."""
    top, _, rest = module.partition(".")
    if top == "stacks":
        return top
    return rest.partition(".")[0] or None if top == "deskyard" else None


def is_allowed(above: str, below: str) -> bool:
    if above == below:
        return True
    if above in INSIDE:
        return below in INSIDE[above]
    if below == "gateway":
        return above in ASKS_THE_GATEWAY
    return ORDER.index(below) < ORDER.index(above)


def control_room(name: str) -> str | None:
    """The folder within Mission Control that a module, or a name in it, is of; None outside, and for all of it."""
    inside = name.removeprefix(f"{CONTROL}.")
    if inside == name:
        return None
    return max((folder for folder in CONTROL_ORDER if f"{inside}.".startswith(f"{folder}.")), key=len, default="")


def is_allowed_in_control(above: str, below: str) -> bool:
    return CONTROL_ORDER.index(below) <= CONTROL_ORDER.index(above)


def is_acyclic(arrows: Mapping[str, set[str]]) -> bool:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        print(" -> ".join(error.args[1]))
        return False
    return True


def test_every_room_has_its_place() -> None:
    rooms = {own for name in modules() if (own := room(name)) is not None}
    assert rooms == set(ORDER)


def test_no_import_goes_up() -> None:
    up = {
        (name, target)
        for name, tree in modules().items()
        if (own := room(name)) is not None
        for other in imported(tree)
        if (target := room(other)) is not None and not is_allowed(own, target)
    }
    assert sorted(up) == []


def test_every_room_of_mission_control_has_its_place() -> None:
    control = TREE / CONTROL.replace(".", "/")
    folders = {".".join(path.parent.relative_to(control).parts) for path in control.rglob("*.py")}
    assert folders == set(CONTROL_ORDER)


def test_no_import_within_mission_control_goes_up() -> None:
    up = {
        (name, other)
        for name, tree in modules().items()
        if (own := control_room(name)) is not None
        for other in imported(tree)
        if (target := control_room(other)) is not None and not is_allowed_in_control(own, target)
    }
    assert sorted(up) == []


def test_the_map_of_mission_control_has_its_rooms_in_their_order() -> None:
    rows = re.findall(r"(?m)^\| `deskyard/control/(\S+?)/?` \|", (TREE / "docs/architecture.md").read_text())
    assert [row.replace("/", ".").removesuffix("*.py") for row in rows] == list(CONTROL_ORDER)


def test_no_modules_import_each_other_in_a_circle() -> None:
    trees = modules()
    arrows = {name: {other for other in imported(tree) if other in trees} - {name} for name, tree in trees.items()}
    # What a package's own file offers is imported from below it.
    packages = {name for name in trees if (TREE / name.replace(".", "/")).is_dir()}
    assert is_acyclic({name: targets - packages for name, targets in arrows.items()})


@pytest.mark.parametrize("arrows", [{"a": {"b"}, "b": {"c"}, "c": {"a"}}])
def test_a_circle_is_seen(arrows: dict[str, set[str]]) -> None:
    assert not is_acyclic(arrows)


def test_an_import_that_goes_up_is_seen() -> None:
    assert not is_allowed("model", "plan")
    assert not is_allowed("gateway", "plan")
    assert not is_allowed("model", "gateway")
    assert not is_allowed("guest", "errors")
    assert is_allowed("gateway", "wire")
    assert is_allowed("tasks", "model")
    tree = parsed("def late() -> None:\n    from deskyard.workspace import workspace\n")
    assert {room(name) for name in imported(tree)} == {"workspace"}


def test_an_import_that_goes_up_within_mission_control_is_seen() -> None:
    source = "from deskyard.control.web import people\ndef late() -> None:\n    from deskyard.control import backup\n"
    assert {control_room(name) for name in imported(parsed(source))} == {"web", "", None}
    assert control_room("deskyard.control.store.versions") == "store.versions"
    assert control_room("deskyard.controlled") is None
    assert not is_allowed_in_control("api", "web")
    assert not is_allowed_in_control("upkeep", "jobs")
    assert not is_allowed_in_control("process", "")
    assert is_allowed_in_control("api", "api.forms")
    assert is_allowed_in_control("", "web")


def test_every_room_says_its_job_in_a_sentence() -> None:
    folders = {path.parent for package in ("deskyard", "stacks") for path in (TREE / package).rglob("*.py")}
    silent = [
        str(folder.relative_to(TREE))
        for folder in folders
        if folder != TREE / "stacks/workspace"
        if not (file := folder / "__init__.py").is_file() or not ast.get_docstring(parsed(file))
    ]
    assert silent == []


def test_no_room_is_a_hall() -> None:
    folders = {path.parent for package in ("deskyard", "stacks") for path in (TREE / package).rglob("*.py")}
    counts = {str(folder.relative_to(TREE)): len(list(folder.glob("*.py"))) for folder in folders}
    del counts[MIGRATIONS]
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}
