"""Rules of what may be granted, and reasons why a link opens nothing."""

from collections.abc import Sequence
from http import HTTPStatus

from deskyard.errors import GatewayError
from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Session
from deskyard.wire.computer import SCOPES
from deskyard.wire.gateway_settings import Desktop
from deskyard.wire.routes import ROUTES

MIN_TTL_SECONDS = 1
MAX_TTL_SECONDS = 24 * 3600
AGENT = "agent"
# What a mode may reach: people drive or look on, a program acts by the routes that are made for programs.
MODES = {
    "drive": tuple(route.name for route in ROUTES.values() if not route.for_programs),
    "view": tuple(route.name for route in ROUTES.values() if route.viewable),
    AGENT: tuple(route.name for route in ROUTES.values() if route.for_programs),
}
ASK_AGAIN = "ask for a new link: access.grant"


def check_grant(desktop: Desktop, routes: Sequence[str] | None, mode: str, ttl: int) -> tuple[str, ...]:
    """The routes to grant; raises `GatewayError` for what makes no sense."""
    if mode not in MODES:
        raise GatewayError("mode", mode, "is no mode", f"choose one of: {', '.join(MODES)}")
    if not MIN_TTL_SECONDS <= ttl <= MAX_TTL_SECONDS:
        reason = f"must be from {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS} seconds"
        raise GatewayError("ttl", ttl, reason, "choose a time within a day")
    possible = [route for route in MODES[mode] if route in desktop.routes]
    chosen = tuple(possible) if routes is None else tuple(routes)
    for route in chosen:
        if route not in possible:
            reason, remedy = f"cannot be granted in mode {mode}", f"choose of: {', '.join(possible)}"
            raise GatewayError("routes", route, reason, remedy)
    if not chosen:
        raise GatewayError("routes", "", "is empty", f"choose of: {', '.join(possible)}")
    return tuple(sorted(set(chosen)))


def check_scopes(scopes: Sequence[str] | None, mode: str) -> tuple[str, ...]:
    """Check what a program may do with the desktop, all by default; raises `GatewayError` for what makes no sense."""
    if mode != AGENT:
        if scopes:
            reason = f"mean nothing in mode {mode}"
            raise GatewayError("scopes", ",".join(scopes), reason, f"grant --mode {AGENT}, or leave them out")
        return ()
    chosen = SCOPES if scopes is None else tuple(scopes)
    for scope in chosen:
        if scope not in SCOPES:
            raise GatewayError("scopes", scope, "is no scope", f"choose of: {', '.join(SCOPES)}")
    if not chosen:
        raise GatewayError("scopes", "", "is empty", f"choose of: {', '.join(SCOPES)}")
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
