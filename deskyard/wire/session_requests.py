"""Requests to a gateway's session service on its private line."""

from collections.abc import Mapping, Sequence
from typing import Any

DEFAULT_MODE, DEFAULT_HOURS = "drive", 8
DEFAULT_TTL = f"{DEFAULT_HOURS}h"
# What came of it that a person wants a desktop which sleeps.
STARTS, NO_ROOM, FAILED = "starts", "no-room", "failed"
WAKINGS = (STARTS, NO_ROOM, FAILED)
SOCKET = "run/deskyard-session/admin.sock"


def grant(
    desktop: str, routes: Sequence[str] | None, mode: str, ttl: int, actor: str, scopes: Sequence[str] | None = None
) -> dict[str, Any]:
    """Make a link that opens a session once; no routes or scopes: all that the mode allows; `ttl` in seconds."""
    asked = {"desktop": desktop, "routes": list(routes) if routes is not None else None, "mode": mode, "ttl": ttl}
    asked["scopes"] = list(scopes) if scopes is not None else None
    return {"command": "grant", **asked, "actor": actor}


def listing() -> dict[str, Any]:
    """List sessions."""
    return {"command": "list"}


def revoke(session: str | None, desktop: str | None, everything: bool, actor: str) -> dict[str, Any]:
    """End one session, those of a desktop, or all, and close their sockets."""
    return {"command": "revoke", "id": session, "desktop": desktop, "all": everything, "actor": actor}


def anchor(source: str, number: int, head: str, actor: str) -> dict[str, Any]:
    """Write the last line of another chain into the gateway's audit."""
    return {"command": "anchor", "source": source, "number": number, "head": head, "actor": actor}


def agent(action: str, desktop: str | None, actor: str) -> dict[str, Any]:
    """Stop a desktop's agent, let it go on, or list what is stopped."""
    return {"command": "agent", "action": action, "desktop": desktop, "actor": actor}


def waking(desktop: str, state: str) -> dict[str, Any]:
    """Tell the pages that wait for a desktop what its host made of that: one of `WAKINGS`."""
    return {"command": "waking", "desktop": desktop, "state": state}


def stages(desktops: Mapping[str, tuple[str, float]]) -> dict[str, Any]:
    """Tell where the host has desktops, one of `deskyard.wire.stages.OF_HOST` each, and since which Unix time."""
    return {
        "command": "stages",
        "desktops": {name: {"state": state, "at": at} for name, (state, at) in desktops.items()},
    }


def listed(text: str | None) -> list[str] | None:
    """Routes or scopes from a list with commas; None asks for all."""
    return [name for name in text.split(",") if name] if text is not None else None
