"""Linters are tests: a missing one skips on a person's machine and fails in CI."""

from pathlib import Path

from deskyard.host.toolchain import locate
from tests.support.linters import passes

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
    passes("mypy")


def test_shell_scripts_are_sound() -> None:
    assert SHELL_SCRIPTS
    passes("shellcheck", *map(str, SHELL_SCRIPTS))


def test_ansible_lint_finds_nothing() -> None:
    passes(
        "ansible-lint",
        "--offline",
        "--profile",
        "production",
        "ansible",
        env={"ANSIBLE_HOME": "/tmp/deskyard-ansible-lint"},
    )


def test_packer_templates_are_formatted() -> None:
    passes(str(locate("packer")), "fmt", "-check", "packer", env={"CHECKPOINT_DISABLE": "1"})
