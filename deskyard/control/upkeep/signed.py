"""Operations that take data away or open the network, in the line that a person signs and the worker checks. Pure."""

from collections.abc import Mapping
from typing import Any

RESTORE, ALLOW = "snapshot.restore", "egress.allow"
# How long a name is allowed, in seconds; always: until somebody takes it out of the declaration.
SECONDS = {"15m": 900, "1h": 3600, "always": None}

# Who may answer, and how many have to, a rule of approvals says: a name that was allowed at once would go round it.
RULED = "has a rule of approvals: its names are answered one by one"


def restore_target(desktop: str | None, values: Mapping[str, Any]) -> str:
    """Which desktop goes back to which snapshot."""
    return f"{desktop} {values['name']}"


def allow_target(workspace: str | None, values: Mapping[str, Any]) -> str:
    """Which name the desktops of which workspace may reach, and for how long."""
    return f"{workspace} {values['name']} {values['how_long']}"
