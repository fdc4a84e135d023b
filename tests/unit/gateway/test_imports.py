"""The gateway's program stands alone: the image carries what it imports, and nothing else of Deskyard."""

import ast
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deskyard.image.build import gateway_bundle, program
from deskyard.lab.changed_tests import imported
from tests.support.sources import parsed

TREE = Path(__file__).resolve().parents[3]
ALLOWED = {"deskyard.errors", "deskyard.wire", "deskyard.gateway"}


@pytest.fixture(scope="module")
def carried() -> Iterator[Path]:
    """What the image gets, laid out without the viewer."""
    with tempfile.TemporaryDirectory() as name:
        assets, bundle = Path(name) / "assets", Path(name) / "bundle"
        assets.mkdir()
        gateway_bundle._lay_out(assets, bundle)
        yield bundle


def modules(bundle: Path) -> dict[str, ast.Module]:
    found = sorted(bundle.rglob("*.py"))
    return {str(path.relative_to(bundle)): parsed(path) for path in found}


def test_what_the_gateway_imports_is_carried(carried: Path) -> None:
    lacking = {
        (path, name)
        for path, module in modules(carried).items()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (name := node.module or "").startswith("deskyard")
        if not ((file := carried / name.replace(".", "/")).is_dir() or file.with_suffix(".py").is_file())
    }
    assert lacking == set()


def test_no_module_imports_more_of_deskyard_than_the_gateway_has(carried: Path) -> None:
    others = {
        (path, name)
        for path, module in modules(carried).items()
        for name in imported(module)
        if name.startswith("deskyard.") and ".".join(name.split(".")[:2]) not in ALLOWED
    }
    assert others == set()


def test_there_are_modules_to_look_at(carried: Path) -> None:
    assert len(modules(carried)) > 40


def test_what_is_carried_is_what_the_digest_follows() -> None:
    sources = yaml.safe_load((TREE / "images/gateway/image.yaml").read_text())["sources"]
    assert {f"deskyard/{name}" for name in program.PROGRAMS["gateway"]} | {"viewer"} == set(sources)
