"""Linters are tests: a missing one skips on a person's machine and fails in CI."""

from pathlib import Path

import pytest

from deskyard.host.toolchain import locate
from tests.support.linters import inherited, passes, passes_as_is

TREE = Path(__file__).parents[2]
SHELL_SCRIPTS = [
    path
    for path in (TREE / "inv", TREE / ".ci/run", *TREE.glob("**/*.sh"))
    if path.exists() and not {".venv", "node_modules"} & set(path.parts)
]


def test_ruff_finds_nothing() -> None:
    passes("ruff", "check", ".")


def test_python_is_formatted() -> None:
    passes("ruff", "format", "--check", ".")


def test_types_hold() -> None:
    with inherited(TREE / ".mypy_cache"):
        passes("mypy")


def test_shell_scripts_are_sound() -> None:
    assert SHELL_SCRIPTS
    passes("shellcheck", *map(str, SHELL_SCRIPTS))


def test_ansible_lint_finds_nothing() -> None:
    passes_as_is(
        "ansible-lint",
        "--offline",
        "--profile",
        "production",
        "ansible",
        sources=[TREE / "ansible"],
        env={"ANSIBLE_HOME": "/tmp/deskyard-ansible-lint"},
    )


def test_a_linter_is_asked_again_about_what_has_changed_or_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    source, log, linter = tmp_path / "source", tmp_path / "log", tmp_path / "linter"
    linter.write_text(f"#!/bin/sh\necho asked >>{log}\n! grep -q wrong {source}\n")
    linter.chmod(0o755)

    def looks(text: str) -> int:
        source.write_text(text)
        log.write_text("")
        passes_as_is(str(linter), sources=[source])
        return len(log.read_text().splitlines())

    assert [looks("a"), looks("a"), looks("b"), looks("a")] == [1, 0, 1, 0]
    for _ in range(2):
        with pytest.raises(AssertionError):
            looks("wrong")
        assert log.read_text() == "asked\n"


def test_a_fresh_tree_begins_with_what_a_linter_kept_in_another_and_changes_no_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))

    def looks(tree: str, found: str) -> str:
        folder = tmp_path / tree / ".found"
        with inherited(folder):
            begun = (folder / "all").read_text() if folder.exists() else "nothing"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "all").write_text(found)
        return begun

    assert [looks(*step) for step in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5"))] == [
        "nothing",
        "1",
        "1",
        "2",
        "2",
    ]


def test_packer_templates_are_formatted() -> None:
    passes(str(locate("packer")), "fmt", "-check", "packer", env={"CHECKPOINT_DISABLE": "1"})
