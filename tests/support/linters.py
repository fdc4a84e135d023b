"""Runs linters for tests."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deskyard.host.lock import alone
from deskyard.host.places import places
from tests.support.requirements import need_programs

TREE = Path(__file__).parents[2]


def passes(*argv: str, cwd: Path = TREE, env: dict[str, str] | None = None) -> None:
    """Fail the test with what the linter says, if it finds something."""
    code, said = verdict(*argv, cwd=cwd, env=env)
    assert code == 0, said


def passes_as_is(*argv: str, sources: Sequence[Path], cwd: Path = TREE, env: dict[str, str] | None = None) -> None:
    """Like `passes`, for a slow linter that keeps nothing: asked once about the same content, by the same programs.

    `sources` are the files and folders that it reads; only a verdict without findings is kept.
    """
    mark = places().cache / "lint" / _digest(argv, [*sources, TREE / "requirements.lock", Path(__file__)])
    if mark.exists():
        return
    passes(*argv, cwd=cwd, env=env)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


@contextmanager
def inherited(folder: Path) -> Iterator[None]:
    """Let a tree that has not this folder of a linter's findings yet begin with another tree's, and leave it its own.

    For a linter that compares contents, whatever the paths and dates of its sources: in a fresh clone it looks only at
    what differs.
    """
    kept, is_new = places().cache / "lint" / folder.name, not folder.exists()
    if is_new:
        with alone(f"lint{folder.name}"):
            if kept.exists():
                _copy(kept, folder)
    yield
    if folder.exists() and (is_new or not kept.exists()):
        with alone(f"lint{folder.name}"):
            shutil.rmtree(kept, ignore_errors=True)
            _copy(folder, kept)


def _copy(folder: Path, to: Path) -> None:
    """Copy a folder whole or not at all."""
    draft = to.with_name(f"{to.name}.{os.getpid()}")
    shutil.copytree(folder, draft)
    draft.rename(to)


def _digest(argv: Sequence[str], sources: Sequence[Path]) -> str:
    files = {path for source in sources for path in ([source] if source.is_file() else source.rglob("*"))}
    total = hashlib.sha256(repr((argv, sys.version)).encode())
    for path in sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{os.path.relpath(path, TREE)} {path.stat().st_mode & 0o111:o} {content}\n".encode())
    return total.hexdigest()


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
