"""When desktops may be updated and restarted, and when something is due."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from deskyard.errors import ConfigError
from deskyard.model.care import BackupSchedule, Care
from deskyard.plan.backup import Backup
from deskyard.plan.care import Done, Window, backup_due, backup_rests, due, trial_due

ZONE = timezone(timedelta(hours=2))


def at(text: str) -> datetime:
    """A moment; 2026-11-23 is a Monday."""
    return datetime.fromisoformat(text).replace(tzinfo=ZONE)


@pytest.mark.parametrize(
    ("window", "moment", "opened"),
    [
        ("03:00-05:00", "2026-11-25T03:00", "2026-11-25T03:00"),
        ("03:00-05:00", "2026-11-25T04:59:59", "2026-11-25T03:00"),
        ("03:00-05:00", "2026-11-25T05:00", None),
        ("03:00-05:00", "2026-11-25T02:59", None),
        ("22:00-02:00", "2026-11-25T23:00", "2026-11-25T22:00"),
        ("22:00-02:00", "2026-11-26T01:59", "2026-11-25T22:00"),
        ("sat 22:00-02:00", "2026-11-29T01:00", "2026-11-28T22:00"),
        ("sun 22:00-02:00", "2026-11-29T01:00", None),
        ("mon,wed 03:00-05:00", "2026-11-24T04:00", None),
    ],
)
def test_window_is_open_within_its_hours_and_days(window: str, moment: str, opened: str | None) -> None:
    found = Window.of(Care(window=window)).opened(at(moment))
    assert found == (None if opened is None else at(opened))


@pytest.mark.parametrize(
    "window", ["", "3-5", "03:00", "25:00-05:00", "03:60-05:00", "03:00-03:00", "son 03:00-05:00", "sat,sun"]
)
def test_window_that_is_none_is_refused_with_what_to_write(window: str) -> None:
    with pytest.raises(ConfigError, match=r"-> write \d\d:00"):
        Care.check({"window": window}, "test")


@pytest.mark.parametrize(
    ("looked", "updated", "moment", "wanted"),
    [
        (None, None, "2026-11-25T12:00", True),
        ("2026-11-25T11:00", None, "2026-11-25T12:00", False),
        ("2026-11-24T11:00", None, "2026-11-25T12:00", True),
        ("2026-11-25T02:00", None, "2026-11-25T03:30", True),
        ("2026-11-25T03:10", "2026-11-25T03:10", "2026-11-25T03:30", False),
        ("2026-11-25T02:30", "2026-11-24T04:00", "2026-11-25T03:30", True),
        # The clock was set back since.
        ("2027-11-25T11:00", None, "2026-11-25T12:00", True),
        ("2026-11-25T03:10", "2027-11-25T03:10", "2026-11-25T03:30", True),
    ],
)
def test_one_look_a_day_and_one_update_in_each_window_are_due(
    looked: str | None, updated: str | None, moment: str, wanted: bool
) -> None:
    done = Done(at(looked) if looked else None, at(updated) if updated else None)
    assert due(Care(window="03:00-05:00"), done, at(moment)) is wanted


def test_window_makes_nothing_due_where_nothing_is_updated() -> None:
    done = Done(at("2026-11-25T02:00"), None)
    assert not due(Care(window="03:00-05:00", updates="none"), done, at("2026-11-25T03:30"))


NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
DAILY = BackupSchedule(every="1d", verify_every="7d")


def backups(*ages: float, verified: bool = True) -> list[Backup]:
    """One of each age, in hours."""
    made = [int((NOON - timedelta(hours=hours)).timestamp()) for hours in ages]
    return [Backup("one", "dev1", moment, True, verified=1 if verified else None) for moment in made]


@pytest.mark.parametrize(
    ("ages", "is_due"),
    [
        ((), True),
        ((19.9,), False),
        ((20,), True),
        ((100, 1), False),
        # Made before the clock was set back.
        ((-5,), True),
        ((-5, 1), False),
    ],
)
def test_a_backup_is_due_before_the_last_one_is_too_old(ages: tuple[float, ...], is_due: bool) -> None:
    assert backup_due(DAILY, backups(*ages), NOON) is is_due


@pytest.mark.parametrize(("hours", "verified", "is_due"), [(139, True, False), (140, True, True), (1, False, True)])
def test_a_trial_is_due_before_the_last_verified_one_is_too_old(hours: float, verified: bool, is_due: bool) -> None:
    assert trial_due(DAILY, backups(hours, verified=verified), NOON) is is_due


@pytest.mark.parametrize(("hours", "rests"), [(None, False), (0, True), (3.9, True), (4, False), (-1, False)])
def test_what_was_tried_rests_for_a_while(hours: float | None, rests: bool) -> None:
    assert backup_rests(DAILY, None if hours is None else NOON - timedelta(hours=hours), NOON) is rests
