"""What a machine is wanted to be. It is kept with the machine: the host may restart, and whoever asked may be gone."""

from enum import StrEnum


class Power(StrEnum):
    """What a machine is wanted to be; `workspace.up` leaves alone what is wanted off or paused."""

    RUNNING = "running"
    OFF = "off"
    PAUSED = "paused"
