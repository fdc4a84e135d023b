"""The agent's processes are halted after what its hands hold is let go, and the kernel's word is what counts."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deskyard.guest import freeze


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was done, in order; systemd is played, and does as it is told."""
    steps: list[str] = []

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        steps.append(" ".join(argv))
        (tmp_path / "cgroup.events").write_text(f"populated 1\nfrozen {int(argv[1] == 'freeze')}\n")
        return subprocess.CompletedProcess(argv, 0, "", "")

    def release() -> bool:
        steps.append("release")
        return True

    monkeypatch.setattr(freeze, "GROUP", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(freeze, "release", release)
    return steps


def test_keys_are_released_before_the_slice_is_frozen(done: list[str]) -> None:
    assert freeze.act("freeze") == {"released": True, "frozen": True}
    assert done == ["release", "systemctl freeze agent.slice"]


def test_thawed_is_what_the_kernel_says(done: list[str]) -> None:
    freeze.act("freeze")
    assert freeze.act("thaw") == {"frozen": False}


def test_looking_changes_nothing(done: list[str]) -> None:
    assert freeze.act("look") == {"frozen": False}
    assert done == []


def test_slice_that_does_not_freeze_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], done: list[str]
) -> None:
    def fails(argv: list[str], **_: Any) -> Any:
        raise subprocess.CalledProcessError(1, argv, "", "Unit agent.slice not found.")

    monkeypatch.setattr(subprocess, "run", fails)
    monkeypatch.setattr("sys.stdin.readline", lambda: '{"action": "freeze"}')
    freeze.main()
    assert json.loads(capsys.readouterr().out) == {"error": "systemctl: exit code 1: Unit agent.slice not found."}


def test_service_that_is_away_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze, "RELEASE", "http://127.0.0.1:9/v1/release")
    assert freeze.release() is False
