"""When a desktop may be cared for, and what is due. Pure: the moment is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from deskyard.model.care import DAYS, WINDOW, BackupSchedule, Care
from deskyard.plan.backup import Backup, proved, sound

# A backup is made so much of its time before it would be too old: a timer is late, and to make it takes time.
EARLY = 6
CHECK_EVERY = timedelta(hours=20)  # a daily timer with some delay still finds it due


@dataclass(frozen=True)
class Window:
    """Hours of the week; one whose end is before its begin ends the next day."""

    days: frozenset[int]
    begin: time
    end: time

    @classmethod
    def of(cls, care: Care) -> "Window":
        """The window of a declaration, which has checked its form."""
        match = WINDOW.match(care.window)
        assert match is not None
        names = match["days"].split(",") if match["days"] else DAYS
        return cls(
            frozenset(map(DAYS.index, names)), time.fromisoformat(match["begin"]), time.fromisoformat(match["end"])
        )

    def opened(self, moment: datetime) -> datetime | None:
        """When the window that is open at this moment began; None if none is."""
        for days_ago in (0, 1):
            day = moment - timedelta(days=days_ago)
            begin = datetime.combine(day.date(), self.begin, moment.tzinfo)
            end = datetime.combine(day.date(), self.end, moment.tzinfo)
            if self.end <= self.begin:
                end += timedelta(days=1)
            if day.weekday() in self.days and begin <= moment < end:
                return begin
        return None


@dataclass(frozen=True)
class Done:
    """When a desktop was last looked at, last updated, and a backup of it last tried by schedule; None is never."""

    looked: datetime | None = None
    updated: datetime | None = None
    tried: datetime | None = None


def due(care: Care, done: Done, moment: datetime) -> bool:
    """Whether a desktop wants care: one look a day, and one update in each window.

    What was done at a time that is to come, before the clock was set back, counts for nothing.
    """
    opened = Window.of(care).opened(moment)
    is_updated = opened is not None and done.updated is not None and opened <= done.updated <= moment
    is_looked_at = done.looked is not None and timedelta() <= moment - done.looked < CHECK_EVERY
    return (opened is not None and care.updates != "none" and not is_updated) or not is_looked_at


def backup_rests(schedule: BackupSchedule, tried: datetime | None, moment: datetime) -> bool:
    """Whether one was tried just now: what fails is not told, nor tried again, at every look."""
    return tried is not None and tried <= moment < tried + timedelta(seconds=schedule.every_seconds) / EARLY


def backup_due(schedule: BackupSchedule, present: Sequence[Backup], moment: datetime) -> bool:
    """Whether a desktop with these backups wants another one."""
    return _is_old(sound(present), timedelta(seconds=schedule.every_seconds), moment)


def trial_due(schedule: BackupSchedule, present: Sequence[Backup], moment: datetime) -> bool:
    """Whether a desktop's newest backup is to be booted."""
    return _is_old(proved(present), timedelta(seconds=schedule.verify_seconds), moment)


def _is_old(some: Sequence[Backup], most: timedelta, moment: datetime) -> bool:
    # What was made before the clock was set back is of no age.
    ages = [moment - datetime.fromtimestamp(backup.made, moment.tzinfo) for backup in some]
    return min((age for age in ages if age >= timedelta()), default=most) >= most - most / EARLY
