"""The jobs by which a worker's child halts a machine and lets it go on, as the same tasks of the host would."""

from collections.abc import Callable, Mapping
from typing import Any

from deskyard.control.jobs.target import desktop_target

Wanted = Mapping[str, Any]


def _pause(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import power

    return {"result": power.pause(desktop_target(wanted), to_disk=wanted["input"].get("to_disk") is True)}


def _resume(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import power

    # Its clock is set right on the way.
    return {"result": power.start(desktop_target(wanted))}


JOBS: dict[str, Callable[[Wanted], dict[str, Any]]] = {"desktop.pause": _pause, "desktop.resume": _resume}
