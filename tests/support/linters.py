"""Runs linters for tests."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.requirements import need_programs

TREE = Path(__file__).parents[2]


def passes(*argv: str, cwd: Path = TREE, env: dict[str, str] | None = None) -> None:
    """Fail the test with what the linter says, if it finds something."""
    code, said = verdict(*argv, cwd=cwd, env=env)
    assert code == 0, said


def verdict(*argv: str, cwd: Path = TREE, env: dict[str, str] | None = None) -> tuple[int, str]:
    """The exit code of a linter, and what it says; a missing one skips the test, and fails it in CI."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    need_programs(argv[0], path=path)
    result = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, "PATH": path, **(env or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr
