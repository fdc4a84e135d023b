"""Names are nouns that say what a thing is, and docstrings begin with what they are about."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.sources import parsed

# Files, each with lines and what is wrong there.
Found = dict[str, list[tuple[int, str]]]
TREE = Path(__file__).resolve().parents[2]
ROOTS = ("deskyard", "stacks", "sdk", "ansible", "tests")
# They stand for anything: `for one in disks` hides what `for disk in disks` says.
FORBIDDEN = {"one", "told", "shall"}
ANYWHERE = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(FORBIDDEN)})(?![A-Za-z0-9])", re.IGNORECASE)
# Folders and files that still have such names, and why. It only shrinks: what has none any more leaves.
REMAINING: dict[str, str] = {}
# Tests have docstrings for themselves; these are read by whoever uses the thing.
PUBLIC = ("deskyard", "stacks", "sdk", "ansible")
# "What makes a key." leaves open whether that is a function, a file or a person: "Make a key." does not.
WHAT = re.compile(r"\s*What\b", re.IGNORECASE)
SOMEWHERE = re.compile(rf"[\"']{WHAT.pattern}", re.IGNORECASE)


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
    tree = parsed(text if ANYWHERE.search(text) else "")
    return [(line, name) for line, name in names(tree) if name.strip("_").lower() in FORBIDDEN]


def vague(text: str) -> list[tuple[int, str]]:
    """The first lines of a module's docstrings that begin with "What", with their lines."""
    tree = parsed(text if SOMEWHERE.search(text) else "")
    found = []
    for node in ast.walk(tree):
        # Those of attributes count, too: they stand below what they are about.
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))) if WHAT.match(said):
                found.append((node.lineno, said.strip().splitlines()[0]))
    return found


def left(path: str, excused: Iterable[str]) -> str | None:
    """The excused place that a file belongs to."""
    return next((place for place in excused if path == place or path.startswith(f"{place}/")), None)


def faults(found: Found, excused: Iterable[str]) -> list[str]:
    """The findings outside the excused places, a line each."""
    return [f"{path}:{line}: {said}" for path, rows in found.items() if not left(path, excused) for line, said in rows]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Every module, by its path."""
    paths = [path for root in ROOTS for path in (TREE / root).rglob("*.py") if "node_modules" not in path.parts]
    assert len(paths) > 500
    return {str(path.relative_to(TREE)): path.read_text() for path in sorted(paths)}


@pytest.fixture(scope="module")
def found(texts: dict[str, str]) -> Found:
    """The files that give such names."""
    return {path: wrong for path, text in texts.items() if (wrong := forbidden(text))}


@pytest.fixture(scope="module")
def begun(texts: dict[str, str]) -> Found:
    """The files with docstrings that begin with "What"."""
    public = {path: text for path, text in texts.items() if path.split("/")[0] in PUBLIC}
    assert len(public) > 500
    return {path: wrong for path, text in public.items() if (wrong := vague(text))}


def test_every_name_says_what_the_thing_is(found: Found) -> None:
    assert faults(found, REMAINING) == [], "name what the thing is: a disk, a desktop, a line"


def test_every_docstring_begins_with_what_it_is_about(begun: Found) -> None:
    assert faults(begun, ()) == [], "begin with a verb or a noun: make a key, the key of a site"


def test_places_that_are_clean_are_no_longer_excused(found: Found) -> None:
    assert sorted(REMAINING.keys() - {left(path, REMAINING) for path in found}) == [], "no such names: take them out"


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


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""What makes a key."""', [1]),
        ("'What makes a key.'", [1]),
        ('class Key:\n    """What opens.\n\n    More.\n    """\n    size = 1\n    """What it holds."""', [2, 7]),
        ('async def make():\n    r"""\n    what makes a key.\n    """', [2]),
        ('"""Makes what is wanted."""', []),
        ('"""Whatever a person wrote."""', []),
        ('text = "What makes a key."\nprint("What now?")\n# What makes a key.', []),
    ],
)
def test_docstrings_are_found(text: str, lines: list[int]) -> None:
    assert sorted(line for line, _ in vague(text)) == lines
