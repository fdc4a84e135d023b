"""The jobs by which a worker's child pauses machines and exchanges their systems, as the host's tasks would."""

from collections.abc import Callable, Mapping
from typing import Any

from deskyard.control.machines.target import PREVIEW, UPGRADE
from deskyard.control.queue.claim import Claim
from deskyard.control.queue.target import desktop_target
from deskyard.control.store.connection import Link

Wanted = Mapping[str, Any]
# Of an exchange, what a person wants to know; how the machine is, is seen.
PARTS = ("before", "after", "packages", "kept", "down_seconds")


def _pause(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import power

    return {"result": power.pause(desktop_target(wanted), to_disk=wanted["input"].get("to_disk") is True)}


def _upgrade(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import system

    given = wanted["input"]
    # Whatever is built by now: what was signed is this image.
    packages, image = given.get("packages") is True, str(given["image"])
    return _exchanged(system.upgrade(desktop_target(wanted), packages=packages, only=image))


def _preview(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import system

    return _exchanged(system.upgrade(desktop_target(wanted), dry_run=True))


def _exchanged(done: Mapping[str, Any]) -> dict[str, Any]:
    return {"result": {name: done[name] for name in PARTS if name in done}}


JOBS: dict[str, Callable[[Wanted], dict[str, Any]]] = {
    "desktop.pause": _pause,
    UPGRADE: _upgrade,
    PREVIEW: _preview,
}


def keep(link: Link, held: Claim, result: Mapping[str, Any]) -> None:
    """Write down which image a desktop runs after an upgrade that was done: it is seen a minute later otherwise."""
    if held.kind == UPGRADE and isinstance(result.get("after"), str):
        link.execute("update desktop set image_now = %s where id = %s", [result["after"], held.desktop])
