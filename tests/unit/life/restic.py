"""The real restic, found or built once, whatever home a test has."""

from pathlib import Path

import pytest

from deskyard.host.toolchain import get

RESTIC = get("restic").path


def use_restic(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let repositories use it; where it is."""
    monkeypatch.setattr("deskyard.life.backup.repository.locate", lambda _: RESTIC)
    return RESTIC
