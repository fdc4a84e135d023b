"""What may be granted, and why a link opens nothing."""

from collections.abc import Sequence
from http import HTTPStatus

from deskyard.errors import GatewayError
from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Session
from deskyard.wire.gateway_settings import Desktop
from deskyard.wire.routes import ROUTES

MIN_TTL_SECONDS = 1
MAX_TTL_SECONDS = 24 * 3600
MODES = ("drive", "view")
VIEW_ROUTES = tuple(route.name for route in ROUTES.values() if route.viewable)
ASK_AGAIN = "ask for a new link: access.grant"


def check_grant(desktop: Desktop, routes: Sequence[str] | None, mode: str, ttl: int) -> tuple[str, ...]:
    """The routes to grant; raises `GatewayError` for what makes no sense."""
    if mode not in MODES:
        raise GatewayError("mode", mode, "is no mode", f"choose one of: {', '.join(MODES)}")
    if not MIN_TTL_SECONDS <= ttl <= MAX_TTL_SECONDS:
        reason = f"must be from {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS} seconds"
        raise GatewayError("ttl", ttl, reason, "choose a time within a day")
    possible = VIEW_ROUTES if mode == "view" else tuple(desktop.routes)
    chosen = tuple(possible) if routes is None else tuple(routes)
    for route in chosen:
        if route not in possible or route not in desktop.routes:
            known = ", ".join(route for route in possible if route in desktop.routes)
            raise GatewayError("routes", route, f"cannot be granted in mode {mode}", f"choose of: {known}")
    if not chosen:
        raise GatewayError("routes", "", "is empty", f"choose of: {', '.join(possible)}")
    return tuple(sorted(set(chosen)))


def why_not(session: Session | None, now: float) -> Refusal:
    """Why a ticket opens nothing."""
    if session is None:
        return Refusal(HTTPStatus.FORBIDDEN, "unknown", "this link is not known here", ASK_AGAIN)
    if session.revoked is not None:
        return Refusal(HTTPStatus.GONE, "revoked", "this link was revoked", ASK_AGAIN)
    if session.redeemed is not None:
        return Refusal(HTTPStatus.GONE, "used", "this link was used already; a link opens once", ASK_AGAIN)
    return Refusal(HTTPStatus.GONE, "expired", "this link has expired; links live for ten minutes", ASK_AGAIN)
