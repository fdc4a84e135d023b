"""What a policy keeps where we decide, held against what the real restic keeps: the same on every backend."""

import time
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.life.backup.repository import repository_of
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from tests.unit.life.restic import use_restic

# Two of an hour, two of a day, a week that two years share, a gap of months.
MOMENTS = (
    "2025-06-30 23:59:59",
    "2025-12-29 12:00:00",
    "2026-01-01 08:00:00",
    "2026-01-31 08:00:00",
    "2026-02-01 08:00:00",
    "2026-02-01 08:30:00",
    "2026-02-01 21:00:00",
)
POLICIES = (
    {"last": 2},
    {"last": 9},
    {"daily": 2},
    {"hourly": 3},
    {"weekly": 2},
    {"weekly": 5},
    {"monthly": 2, "last": 1},
    {"yearly": 1, "daily": 1},
    {"yearly": 3},
)


def made() -> list[Backup]:
    """Backups of those moments, the oldest first."""
    times = [int(time.mktime(time.strptime(moment, "%Y-%m-%d %H:%M:%S"))) for moment in MOMENTS]
    return [Backup(str(number), "dev1", moment, running=True) for number, moment in enumerate(times)]


def test_a_policy_keeps_what_restic_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    use_restic(monkeypatch)
    repository = repository_of("local", "lab")
    repository.prepare()
    for moment, backup in zip(MOMENTS, made(), strict=True):
        tags = [part for tag in backup.tags for part in ("--tag", tag)]
        repository._restic("backup", "--stdin", "--time", moment, *tags, stdin=backup.id)
    present = plan.backups(repository.snapshots(), "dev1")
    assert [backup.id for backup in present] == [backup.id for backup in made()]
    for policy in POLICIES:
        expected = set(repository.outdated("dev1", policy))
        assert {backup.manifest for backup in plan.outdated(present, policy)} == expected, policy


def test_the_newest_stays_whatever_a_policy_says_and_one_that_keeps_nothing_is_refused() -> None:
    for word in plan.KEEP:
        assert plan.outdated(made(), {word: 1})[-1].id == str(len(MOMENTS) - 2)
    for policy in ({"daily": 0}, {"daily": -1}, {"fortnightly": 1}):
        with pytest.raises(ConfigError):
            plan.outdated(made(), policy)
    assert plan.outdated([], {"daily": 1}) == []
