"""The gateway's program stands alone: the image carries nothing else of Deskyard."""

import ast
from pathlib import Path

import pytest

from deskyard.run.changed_tests import imported

TREE = Path(__file__).resolve().parents[3]
MODULES = sorted((TREE / "deskyard/gateway").glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_imports_nothing_of_deskyard_but_the_gateway(path: Path) -> None:
    others = [name for name in imported(ast.parse(path.read_text())) if name.split(".")[0] == "deskyard"]
    assert all(name.startswith("deskyard.gateway") for name in others)


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 10
