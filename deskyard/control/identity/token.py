"""Whether an ID Token is what OpenID Connect Core 1.0 (3.1.3.7) asks for; its signature is PyJWT's to judge.

PyJWT is in the lock already, for the gateways' sessions, and kept by many. What it does not know stands here: a nonce,
audiences that are not ours, `azp`, and a token that was made long ago.
"""

import base64
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from deskyard.control.identity.refusal import Refusal, refused

# Signed with a key of the provider's that everybody may know: never `none`, never our own secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
NEEDED = ("iss", "sub", "aud", "exp", "iat")
LEEWAY_SECONDS = 60
OLDEST_SECONDS = 600
MOST_SUBJECT, MOST_SAID = 255, 200


class UnknownKey(Refusal):
    """Signed with a key that was not published when it was asked last."""


@dataclass(frozen=True)
class Expected:
    """The claims that a token has to make: by whom it is, for whom, and to which request."""

    issuer: str
    client: str
    nonce: str
    # One that came for a refresh token need not name the request (Core 12.2).
    refreshed: bool = False


def verified(token: str, keys: Sequence[Mapping[str, Any]], expected: Expected) -> dict[str, Any]:
    """The claims of an ID Token; raises `Refusal` for what is not to be believed."""
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise refused("the provider signed with an algorithm that is not accepted")
        key = jwt.PyJWK(dict(_key(header, keys)), algorithm)
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=expected.client,
            issuer=expected.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": list(NEEDED), "enforce_minimum_key_length": True},
        )
    except jwt.PyJWTError as error:
        raise refused(f"the provider's token is not believed: {str(error)[:MOST_SAID]}") from error
    _require(claims, expected)
    return claims


def require_together(claims: Mapping[str, Any], access_token: str, id_token: str) -> None:
    """Raise `Refusal` if an access token is not the one that an ID Token came with, where that one says so."""
    given = claims.get("at_hash")
    algorithm = jwt.get_unverified_header(id_token)["alg"]
    if given is None or algorithm == "EdDSA":  # of which Core does not say how it hashes
        return
    digest = jwt.get_algorithm_by_name(algorithm).compute_hash_digest(access_token.encode())
    own = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=")
    if not hmac.compare_digest(own, str(given).encode()):
        raise refused("the provider's tokens do not belong together")


def _key(header: Mapping[str, Any], keys: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one key that a token can be signed with; none is tried that its name or use does not fit."""
    fit = [key for key in keys if key.get("use", "sig") == "sig" and key.get("alg", header["alg"]) == header["alg"]]
    named = [key for key in fit if "kid" not in header or key.get("kid") == header["kid"]]
    if len(named) != 1:
        raise UnknownKey("sign-in", None, "the provider's token names no key that it published", "try again")
    return named[0]


def _require(claims: Mapping[str, Any], expected: Expected) -> None:
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if audiences != [expected.client] or claims.get("azp", expected.client) != expected.client:
        raise refused("the provider's token is for others, too")
    unnamed = expected.refreshed and "nonce" not in claims
    if not unnamed and not hmac.compare_digest(str(claims.get("nonce", "")).encode(), expected.nonce.encode()):
        raise refused("the provider's token answers another request")
    if int(claims["iat"]) < time.time() - OLDEST_SECONDS:
        raise refused("the provider's token was made long ago")
    if not 0 < len(claims["sub"]) <= MOST_SUBJECT:
        raise refused("the provider's token names nobody")
