"""The signed token: HAProxy verifies it before each upgrade, this service for everything else.

A browser keeps it as a cookie, a program sends it as a bearer token. Each has its own audience, so that neither passes
for the other: what a desktop answers to a program must never be shown by a browser at the gateway's address.
"""

from collections.abc import Mapping
from typing import Any

import jwt

from deskyard.gateway.session.grants import AGENT
from deskyard.gateway.session.store import Session

ISSUER = "deskyard-sessions"
AUDIENCE = "deskyard-gateway"
PROGRAMS = "deskyard-computer"
ALGORITHM = "ES256"


def cookie_name(desktop: str) -> str:
    """One cookie per desktop, so that two desktops fit into two tabs; `__Host-` ties it to this host alone."""
    return f"__Host-deskyard-{desktop}"


def sign(session: Session, workspace: str, now: float, kid: str, key: str) -> str:
    """The token of a redeemed session."""
    claims = {
        "iss": ISSUER,
        "aud": PROGRAMS if session.mode == AGENT else AUDIENCE,
        "jti": session.id,
        "workspace": workspace,
        "desktop": session.desktop,
        # Text in a fixed order: HAProxy reads no arrays.
        "routes": " ".join(sorted(session.routes)),
        "mode": session.mode,
        "scopes": ",".join(sorted(session.scopes)),
        "iat": int(now),
        "nbf": int(now),
        "exp": int(session.ends),
    }
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": kid})


def verify(token: str, keys: Mapping[str, str], workspace: str, audience: str = AUDIENCE) -> dict[str, Any] | None:
    """The claims of a good token of this workspace for this audience, or nothing."""
    try:
        kid = str(jwt.get_unverified_header(token).get("kid"))
        if kid not in keys:
            return None
        claims: dict[str, Any] = jwt.decode(
            token,
            keys[kid],
            algorithms=[ALGORITHM],
            audience=audience,
            issuer=ISSUER,
            # The records say from when until when it is good: a page hears that its session is over, and not just
            # absent, and no token is of a time to come because the clock was set back.
            options={
                "require": ["exp", "nbf", "jti", "iss", "aud"],
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except jwt.InvalidTokenError:
        return None
    return claims if claims.get("workspace") == workspace else None
