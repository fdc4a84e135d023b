"""A suite that cannot run on a machine is left out with its reason, and fails where CI is set."""

import ast
from pathlib import Path

import pytest

from tests.support.requirements import missing, need_programs
from tests.support.sources import parsed

TREE = Path(__file__).resolve().parents[2]
# Suites that judge whatever machine they are run on, Molecule's, which `./inv check.molecule` runs, and what a run has
# no time for, which `./inv check.deep` has.
ELSEWHERE = (
    *("tests/infra/", "tests/molecule/conftest.py", "tests/support/requirements.py"),
    *("tests/support/samples.py", "tests/contract/test_samples.py"),
)
MARKS = ("skip", "importorskip", "mark.skip", "mark.skipif", "mark.xfail")


def skips(path: Path) -> list[str]:
    """The places where a file leaves tests out by itself."""
    found = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)]
    marks = {f"pytest.{mark}" for mark in MARKS}
    return [f"{path.relative_to(TREE)}:{node.lineno}" for node in found if ast.unparse(node) in marks]


def test_a_lack_leaves_a_test_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs root: mounts"):
        missing("root: mounts")


def test_a_lack_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    need_programs("sh")
    with pytest.raises(pytest.fail.Exception, match="needs no-such-program, and CI is set"):
        need_programs("sh", "no-such-program")


def test_ci_says_that_it_is_ci() -> None:
    assert "export CI=true" in (TREE / ".ci/run").read_text()


def test_no_suite_leaves_itself_out() -> None:
    files = sorted(path for path in (TREE / "tests").rglob("*.py") if path != Path(__file__))
    own = [path for path in files if not str(path.relative_to(TREE)).startswith(ELSEWHERE)]
    assert len(own) > 100
    assert [place for path in own for place in skips(path)] == []
