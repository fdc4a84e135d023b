"""The operations on desktops for a task, the name that stands for one of them, and the line that ends it. Pure."""

from collections.abc import Mapping
from typing import Any

from deskyard.control.opening.target import SESSION

BEGIN, RELEASE, TIDY = "task.begin", "task.release", "task.tidy"
# Those after which the seats of their workspace are read anew.
KINDS = (BEGIN, RELEASE, TIDY)
# What is for whoever is at a desktop now, and for nobody after: its agent, and its screen.
MEANT = ("desktop.chat", SESSION)
_OPERATION = "op_"


def claimer(actor: str, operation: str) -> str:
    """The name by which the ledger has a desktop that an operation claimed: no other operation has the same."""
    return f"{actor} {operation}"


def claimed(by: str) -> tuple[str, str | None]:
    """Who has a desktop by the ledger's name, and the operation that claimed it; None: somebody at the host."""
    actor, _, operation = by.rpartition(" ")
    return (actor, operation) if actor and operation.startswith(_OPERATION) else (by, None)


def release_target(desktop: str | None, values: Mapping[str, Any]) -> str:
    """Which machine of which desktop goes: at the same seat there may be another by the time that it is done."""
    return f"{desktop} {values['machine']}"
