"""Names of variables, parameters, functions and classes are nouns that say what a thing is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
ROOTS = ("deskyard", "stacks", "sdk", "ansible", "tests")
# They stand for anything: `for one in disks` hides what `for disk in disks` says.
FORBIDDEN = {"one", "told", "shall"}
ANYWHERE = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(FORBIDDEN)})(?![A-Za-z0-9])", re.IGNORECASE)
# Folders and files that still have such names, and why. It only shrinks: what has none any more leaves.
REMAINING = {
    "deskyard/life/events.py": "with the next change of the events",
    "tests/unit/life/test_events.py": "as deskyard/life/events.py",
}


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that a module gives, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def forbidden(text: str) -> list[tuple[int, str]]:
    """The names of a module that say nothing, with their lines."""
    # Most modules have none of the words in their text: they need no tree.
    tree = ast.parse(text if ANYWHERE.search(text) else "")
    return [(line, name) for line, name in names(tree) if name.strip("_").lower() in FORBIDDEN]


def left(path: str) -> str | None:
    """The entry of `REMAINING` that a file belongs to."""
    return next((place for place in REMAINING if path == place or path.startswith(f"{place}/")), None)


@pytest.fixture(scope="module")
def found() -> dict[str, list[tuple[int, str]]]:
    """The files that give such names."""
    paths = [path for root in ROOTS for path in (TREE / root).rglob("*.py") if "node_modules" not in path.parts]
    assert len(paths) > 500
    read = {str(path.relative_to(TREE)): forbidden(path.read_text()) for path in sorted(paths)}
    return {path: wrong for path, wrong in read.items() if wrong}


def test_every_name_says_what_the_thing_is(found: dict[str, list[tuple[int, str]]]) -> None:
    wrong = [f"{path}:{line}: {name}" for path, rows in found.items() if left(path) is None for line, name in rows]
    assert wrong == [], "name what the thing is: a disk, a desktop, a line"


def test_places_that_are_clean_are_no_longer_excused(found: dict[str, list[tuple[int, str]]]) -> None:
    assert sorted(REMAINING.keys() - {left(path) for path in found}) == [], "these have no such names: take them out"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("for one in disks: pass", ["one"]),
        ("[_one for _one in disks]", ["_one"]),
        ("def told(shall, *, one=1): self.told = one", ["told", "shall", "one", "told"]),
        ("TOLD = 1\nclass One: pass", ["TOLD", "One"]),
        ("import x as one\ntry: pass\nexcept E as told: pass", ["one", "told"]),
        ("for disk in disks: disk.one(one=1, told='one')", []),
        ("once, money, shallow = 1, 2, 3", []),
    ],
)
def test_names_are_found(text: str, names: list[str]) -> None:
    assert sorted(name for _, name in forbidden(text)) == sorted(names)
