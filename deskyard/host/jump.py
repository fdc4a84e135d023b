"""Notices that this machine's clock jumped ahead, by the time since its boot, which nobody sets.

What is deleted by the clock is kept then, until the clock is right again, a person says that it is, or it has stood for
hours, over boots. Each look is kept on disk, since tasks end and a timer begins them anew.
"""

import json
import time
from dataclasses import asdict, dataclass

from deskyard.errors import HostError
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret
from deskyard.host.vm.accelerator import BOOT_ID

# In one boot it is known how much time has passed; a machine that was off for a night looks as one whose clock was set.
SET_SECONDS, OFF_SECONDS = 300.0, 3600.0
# Time servers put a clock right within minutes, and a person hears of it from the hook of `care`.
BELIEVED_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class Moment:
    """A boot, the clock, and the seconds since that boot: all of them, or those that the machine was awake."""

    boot: str
    clock: float
    up: float

    def ahead_of(self, other: "Moment") -> float:
        """The seconds by which the clock is ahead of that moment and the time that has passed at least."""
        passed = self.up - other.up if self.boot == other.boot else self.up
        return self.clock - other.clock - passed


class ClockJump(HostError):
    """The clock is ahead, so what it ends is kept."""


def moment() -> Moment:
    """This moment."""
    return _moment(time.CLOCK_BOOTTIME)


def awake() -> Moment:
    """This moment, by the seconds that the machine was awake since its boot: it is ahead by what it slept, too."""
    return _moment(time.CLOCK_MONOTONIC)


def look(workspace: str) -> ClockJump | None:
    """The jump of the clock since it was right last, unless it has stood so for hours; a first look finds it right.

    What cannot be looked up or kept is no reason to fail, and guards as a jump does. `workspace` is the one whose task
    asks.
    """
    try:
        return _look(workspace)
    except OSError as error:
        # Another account's, as after a task by sudo, or a full disk: no reason to fail a task that deletes nothing.
        reason = f"is compared with nothing: what it ends is kept, since {error.filename} gives {error.strerror}"
        remedy = f"give {places().state} to who runs the tasks (chown -R), or make room"
        return ClockJump("clock", None, reason, remedy)


def _look(workspace: str) -> ClockJump | None:
    with alone("clock"):
        now, (right, noticed, stood) = moment(), _read()
        ahead = 0.0 if right is None else now.ahead_of(right)
        most = SET_SECONDS if right is not None and right.boot == now.boot else OFF_SECONDS
        if noticed is not None:
            # In a later boot it has stood since the begin of that: a machine may be on for a few hours a day.
            stood += now.up - noticed.up if noticed.boot == now.boot else now.up
        rest = BELIEVED_SECONDS - stood
        if right is None or -SET_SECONDS <= ahead <= most or rest <= 0:
            _write(now)
            return None
        _write(right, now, stood)
    if ahead < 0:
        # As that of a machine whose clock stops with it. Nothing ends too early, and to put it right is no jump.
        return None
    reason = f"jumped {ahead / 3600:.1f} h ahead, or was off so long: what it ends is kept for {rest / 3600:.1f} h"
    again = f"./inv care.run {workspace} --clock-is-right"
    return ClockJump("clock", None, reason, f"set it (timedatectl set-ntp true), or if it is right: {again}")


def believe() -> None:
    """Take the clock for right: a person says so. Raises `HostError` if that cannot be kept."""
    try:
        with alone("clock"):
            _write(moment())
    except OSError as error:
        remedy = f"give {places().state} to who runs the tasks (chown -R), or make room; then run it again"
        raise HostError("clock", str(error.filename), f"cannot be taken for right: {error.strerror}", remedy) from error


def _moment(since_boot: int) -> Moment:
    return Moment(BOOT_ID.read_text().strip(), time.time(), time.clock_gettime(since_boot))


def _read() -> tuple[Moment | None, Moment | None, float]:
    """When the clock was right last, when it was last seen to be ahead, and for how many seconds it has been so."""
    try:
        found = json.loads((places().state / "clock.json").read_text())
        right, noticed = (None if found[name] is None else Moment(**found[name]) for name in ("right", "noticed"))
        stood = float(found.get("stood", 0.0))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None, None, 0.0
    return right, noticed, stood


def _write(right: Moment, noticed: Moment | None = None, stood: float = 0.0) -> None:
    kept = {"right": asdict(right), "noticed": None if noticed is None else asdict(noticed), "stood": stood}
    write_secret(places().state / "clock.json", json.dumps(kept).encode())
