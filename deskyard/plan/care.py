"""When a desktop may be cared for, and what is due. Pure: the moment is given."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta

from deskyard.model.care import DAYS, WINDOW, Care

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
    """When a desktop was last looked at, and last updated; None is never."""

    looked: datetime | None = None
    updated: datetime | None = None


def due(care: Care, done: Done, moment: datetime) -> bool:
    """Whether a desktop wants care: one look a day, and one update in each window."""
    opened = Window.of(care).opened(moment)
    fresh = opened is not None and care.updates != "none" and (done.updated is None or done.updated < opened)
    return fresh or done.looked is None or moment - done.looked >= CHECK_EVERY
