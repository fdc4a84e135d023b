"""The power that a machine is wanted to have, how far it is on its way to be of use, and what it takes of its host.

The wish is kept with the machine: the host may restart, and whoever asked may be gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deskyard.errors import HostError
from deskyard.wire.stages import Stage

# What is kept of a disk for machines that write: a tenth of a small one, and so many bytes of a large one.
SPARE_SHARE, MOST_SPARE = 10, 8 << 30


class NoRoom(HostError):
    """A machine cannot start: the memory or space that it needs is others' until one of them stops or goes."""


def spare(disk_bytes: int) -> int:
    """The bytes of a disk of this size that are kept for machines that write."""
    return min(disk_bytes // SPARE_SHARE, MOST_SPARE)


class Power(StrEnum):
    """The state that a machine is wanted to be in; `workspace.up` leaves alone what is wanted off or paused."""

    RUNNING = "running"
    OFF = "off"
    PAUSED = "paused"


# Nobody who waits for anything else gets it from one of these without a person.
BROKEN = frozenset({Stage.ERROR, Stage.IO_ERROR})
RUNS = frozenset({Stage.BOOTING, Stage.READY})
# What the hypervisor calls a machine that does not run; "running" is worked out.
RESTING = {
    "paused": Stage.PAUSED,
    "saved": Stage.PAUSED,
    "io-error": Stage.IO_ERROR,
    "stopped": Stage.STOPPED,
}


@dataclass(frozen=True)
class Moved:
    """A machine came to another stage, at a Unix time; `detail` says why, if that is known."""

    domain: str
    stage: Stage
    at: float
    detail: str = ""


def stage_of(machine: Mapping[str, Any] | None) -> Stage:
    """The stage of a machine by its state and what it is wanted to be; that its routes answer, nobody knows here."""
    if machine is None:
        return Stage.PROVISIONING
    if machine["state"] == "running":
        return Stage.STOPPING if machine["desired"] == Power.OFF else Stage.BOOTING
    return RESTING[machine["state"]]


def follows(now: Stage, then: Stage) -> bool:
    """Whether it is news: what rests does not begin to stop, and what runs is not made."""
    return {Stage.STOPPING: now in RUNS, Stage.PROVISIONING: now not in (*RUNS, Stage.STOPPING)}.get(then, True)


@dataclass(frozen=True)
class Load:
    """The load of a machine since it started; where processor time is not counted, its processors that are busy now."""

    network_bytes: int
    cpu_seconds: float | None = None
    processors: float = 0.0


@dataclass(frozen=True)
class Rate:
    """The mean load of a machine: percent of one processor, KiB per second of its network."""

    cpu_percent: float
    network_kib_per_second: float


def rate(before: Load, now: Load, seconds: float) -> Rate | None:
    """The average between two looks; none if it was started anew meanwhile, or no time passed."""
    network = now.network_bytes - before.network_bytes
    percent = now.processors * 100
    if before.cpu_seconds is not None and now.cpu_seconds is not None and seconds > 0:
        percent = (now.cpu_seconds - before.cpu_seconds) / seconds * 100
    if seconds <= 0 or network < 0 or percent < 0:
        return None
    return Rate(round(percent, 1), round(network / 1024 / seconds, 1))
