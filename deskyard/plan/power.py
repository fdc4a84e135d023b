"""The power that a machine is wanted to have, and how far it is on its way to be of use.

The wish is kept with the machine: the host may restart, and whoever asked may be gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Power(StrEnum):
    """The state that a machine is wanted to be in; `workspace.up` leaves alone what is wanted off or paused."""

    RUNNING = "running"
    OFF = "off"
    PAUSED = "paused"


class Stage(StrEnum):
    """Where a desktop is; only what answers on all its routes is ready."""

    PROVISIONING = "provisioning"
    BOOTING = "booting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    PAUSED = "paused"
    ERROR = "error"
    IO_ERROR = "io-error"


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
