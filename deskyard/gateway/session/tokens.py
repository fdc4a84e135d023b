"""The signed cookie: HAProxy verifies it before each upgrade, this service for everything else."""

from collections.abc import Mapping
from typing import Any

import jwt

from deskyard.gateway.session.store import Session

ISSUER = "deskyard-sessions"
AUDIENCE = "deskyard-gateway"
ALGORITHM = "ES256"


def cookie_name(desktop: str) -> str:
    """One cookie per desktop, so that two desktops fit into two tabs; `__Host-` ties it to this host alone."""
    return f"__Host-deskyard-{desktop}"


def sign(session: Session, workspace: str, now: float, kid: str, key: str) -> str:
    """The token of a redeemed session."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "jti": session.id,
        "workspace": workspace,
        "desktop": session.desktop,
        # Text in a fixed order: HAProxy reads no arrays.
        "routes": " ".join(sorted(session.routes)),
        "mode": session.mode,
        "iat": int(now),
        "nbf": int(now),
        "exp": int(session.ends),
    }
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": kid})


def verify(token: str, keys: Mapping[str, str], workspace: str) -> dict[str, Any] | None:
    """The claims of a good token of this workspace, or nothing."""
    try:
        kid = str(jwt.get_unverified_header(token).get("kid"))
        if kid not in keys:
            return None
        claims: dict[str, Any] = jwt.decode(
            token,
            keys[kid],
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            leeway=5,
            options={"require": ["exp", "nbf", "jti", "iss", "aud"], "verify_exp": False},
        )
    except jwt.InvalidTokenError:
        return None
    # Expiry is judged by the records, so that the page can say that the session is over and not just absent.
    return claims if claims.get("workspace") == workspace else None
