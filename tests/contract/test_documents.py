"""What the documents name exists: files, tests and pages."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tasks import ns

TREE = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*TREE.glob("docs/**/*.md"), *(TREE / name for name in ("README.md", "SPECIFICATION.md", "CONTRIBUTING.md"))]
)
FOLDERS = "deskyard|stacks|tests|ansible|images|packer|docs|tools|examples|viewer|web|sdk|schemas|host|\\.ci|\\.github"
PATH = re.compile(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./*{{}},-]*[\w*/}}]")
BRACES = re.compile(r"\{([^{}]*)\}")
TEST = re.compile(r"`(test_\w+)`")
# A file of tests by its name alone, since the folder stands before it.
TEST_FILE = re.compile(r"(?<![\w/{,.*])test_\w+\.py")
TASK = re.compile(r"\./inv ([a-z][\w-]*\.[\w-]+)")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
# What a user makes by the page that names it.
USERS_OWN = ("images/analyst/", "images/mine", "tests/test_analyst.py", "stacks/workspace/sites")
USERS_OWN_FILE = re.compile(r"stacks/workspace/Pulumi\.[\w*]+\.yaml")


def paths(text: str) -> Iterator[str]:
    """The paths that a text names, with braces written out; NAME in them stands for any."""
    for found in PATH.findall(text):
        path = found.replace("NAME", "*")
        parts = BRACES.split(path)
        choices = [part.split(",") if at % 2 else [part] for at, part in enumerate(parts)]
        yield from ("".join(parts) for parts in product(*choices))


def is_there(path: str) -> bool:
    if path.startswith(USERS_OWN) or USERS_OWN_FILE.fullmatch(path):
        return True
    return next(TREE.glob(path), None) is not None


@cache
def every_test() -> frozenset[str]:
    """The names of all tests."""
    files = (TREE / "tests").rglob("*.py")
    return frozenset(name for path in files for name in re.findall(r"def (test_\w+)", path.read_text()))


def missing(text: str) -> list[str]:
    """The files of tests and the tasks that a text names and that do not exist."""
    files = {path.name for path in (TREE / "tests").rglob("test_*.py")}
    return sorted({*TEST_FILE.findall(text)} - files) + sorted({*TASK.findall(text)} - {*ns.task_names})


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: str(path.relative_to(TREE)))
def test_every_path_test_and_page_that_a_document_names_exists(page: Path) -> None:
    text = page.read_text()
    assert [path for path in paths(text) if not is_there(path)] == []
    assert missing(text) == []
    assert sorted(set(TEST.findall(text)) - every_test()) == []
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []


def test_a_path_that_does_not_exist_is_seen() -> None:
    text = "see `deskyard/plan/{account,nothing}.py`, tests/contract/test_tree.py and (docs/gone.md)."
    assert [path for path in paths(text) if not is_there(path)] == ["deskyard/plan/nothing.py", "docs/gone.md"]
    assert missing("`test_tree.py`, `test_gone.py`; `./inv check.lint` and `./inv check.gone`") == [
        "test_gone.py",
        "check.gone",
    ]


def test_documents_name_paths_and_tests() -> None:
    text = (TREE / "SPECIFICATION.md").read_text()
    assert len(list(paths(text))) > 100
    assert TEST.findall(text)
