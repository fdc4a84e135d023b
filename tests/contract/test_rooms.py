"""Imports go down only: the order of the rooms, and the arrows that still go up."""

import ast
from collections.abc import Iterator
from pathlib import Path

from deskyard.run.changed_tests import imported

TREE = Path(__file__).resolve().parents[2]

# From the ground up: a room may import those before it.
ORDER = ("errors", "model", "plan", "toolchain", "proxmox", "engine", "run", "stacks", "tasks")
# What runs inside a machine stands alone.
INSIDE = frozenset({"gateway"})
# Modules that import what they may not, today. The list only shrinks.
UP = frozenset(
    {
        ("deskyard.model.egress", "gateway"),
        ("deskyard.model.workspace", "gateway"),
        ("deskyard.plan.egress", "gateway"),
        ("deskyard.run.molecule_hosts", "gateway"),
        ("deskyard.run.pulumi_stack", "stacks"),
        ("deskyard.run.verification", "gateway"),
        ("deskyard.run.verification_libvirt", "stacks"),
        ("deskyard.toolchain.finder", "run"),
        ("deskyard.toolchain.go_build", "run"),
        ("deskyard.toolchain.release", "run"),
    }
)


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the tree's own packages, by its dotted name."""
    for package in ("deskyard", "stacks"):
        for path in sorted((TREE / package).rglob("*.py")):
            parts = path.relative_to(TREE).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), ast.parse(path.read_text())


def room(module: str) -> str | None:
    """The room that a module stands in; None for what is not ours."""
    top, _, rest = module.partition(".")
    if top == "stacks":
        return top
    return rest.partition(".")[0] or None if top == "deskyard" else None


def is_allowed(above: str, below: str) -> bool:
    if above == below:
        return True
    if INSIDE & {above, below}:
        return False
    return ORDER.index(below) < ORDER.index(above)


def arrows_up() -> set[tuple[str, str]]:
    found = set()
    for name, tree in modules():
        own = room(name)
        targets = {target for one in imported(tree) if (target := room(one)) is not None}
        found |= {(name, target) for target in targets if own is not None and not is_allowed(own, target)}
    return found


def test_every_room_has_its_place() -> None:
    rooms = {own for name, _ in modules() if (own := room(name)) is not None}
    assert rooms == {*ORDER, *INSIDE}


def test_no_import_goes_up() -> None:
    assert sorted(arrows_up() - UP) == []


def test_list_of_arrows_up_names_none_that_is_gone() -> None:
    assert sorted(UP - arrows_up()) == []


def test_an_import_that_goes_up_is_seen() -> None:
    assert not is_allowed("model", "plan")
    assert not is_allowed("gateway", "errors")
    assert is_allowed("tasks", "model")
    tree = ast.parse("def late() -> None:\n    from deskyard.run import workspace\n")
    assert {room(one) for one in imported(tree)} == {"run"}


def test_every_room_says_its_job_in_a_sentence() -> None:
    silent = [name for name, tree in modules() if name.count(".") == 1 and not ast.get_docstring(tree)]
    assert silent == []
