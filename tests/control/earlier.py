"""A database as a Deskyard of before left it."""

import pytest
from alembic import command


def before(monkeypatch: pytest.MonkeyPatch, version: str = "0014") -> None:
    """Let migrations go no further than a version, until that is undone."""
    upgrade = command.upgrade
    monkeypatch.setattr(command, "upgrade", lambda settings, _: upgrade(settings, version))
