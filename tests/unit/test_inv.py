"""The front door and the map: every task is documented."""

import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]


def inv(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["./inv", *arguments], cwd=TREE, capture_output=True, text=True, timeout=120, check=False)


def test_the_map_shows_every_collection() -> None:
    listed = inv("-l")
    assert listed.returncode == 0, listed.stderr
    for task in (
        "demo",
        "test",
        "image.build",
        "workspace.up",
        "access.grant",
        "egress.allow",
        "toolchain.get",
        "site.show",
        "bench",
    ):
        assert f"  {task}" in listed.stdout, listed.stdout


@pytest.mark.parametrize("task", ["demo", "test", "image.build", "workspace.up", "access.grant"])
def test_a_task_explains_itself(task: str) -> None:
    shown = inv("--help", task)
    assert shown.returncode == 0
    assert "Docstring:\n  none" not in shown.stdout
    assert "Options:" in shown.stdout


def test_an_unknown_task_is_refused() -> None:
    assert inv("no.such.task").returncode != 0
