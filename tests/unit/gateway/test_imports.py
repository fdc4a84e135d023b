"""The gateway's program stands alone: the image carries nothing else of Deskyard."""

import ast
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[3]
MODULES = sorted((TREE / "deskyard/gateway").glob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_imports_nothing_of_deskyard_but_the_gateway(path: Path) -> None:
    others = [name for name in imported(path) if name.split(".")[0] == "deskyard"]
    assert all(name.startswith("deskyard.gateway") for name in others)


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 10
