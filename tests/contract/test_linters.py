"""Linters are tests: a missing one skips on a person's machine and fails in CI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deskyard.toolchain import locate

TREE = Path(__file__).parents[2]
SHELL_SCRIPTS = [
    path
    for path in (TREE / "inv", TREE / ".ci/run", *TREE.glob("**/*.sh"))
    if path.exists() and not {".venv", "node_modules"} & set(path.parts)
]


def passes(*argv: str, cwd: Path = TREE, env: dict[str, str] | None = None) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if shutil.which(argv[0], path=path) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{argv[0]} is not installed")
        pytest.skip(f"{argv[0]} is not installed")
    result = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, "PATH": path, **(env or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


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
