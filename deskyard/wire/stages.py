"""The states of a desktop, from its declaration to its routes, and which of them its host tells its gateway."""

from enum import StrEnum


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


# The host sees machines; whether routes answer, the gateway finds by itself.
OF_HOST = tuple(stage for stage in Stage if stage is not Stage.READY)
