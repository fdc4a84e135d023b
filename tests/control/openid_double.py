"""An OpenID provider on loopback that can lie: what no honest one would say, and what real ones say when they fail.

`tests/control/openid` has an honest one, which is not ours, as the witness.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

CLIENT, SECRET = "mission", "s3cret/+: of the client, 32 bytes long"


@dataclass
class Double:
    """One provider; tests change what it says."""

    server: ThreadingHTTPServer
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    kid: str = "first"
    # What is said of the same in place of the truth.
    claims: dict[str, Any] = field(default_factory=dict)
    discovery: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    named: str | None = None
    signs: Any = None
    algorithm: str = "ES256"
    away: bool = False
    # Whether it gives refresh tokens, whether it takes back all tokens, and whether it has userinfo.
    refreshes: bool = False
    revoked: bool = False
    shows: bool = True
    # Whether its userinfo answers.
    tells: bool = True
    asked: list[str] = field(default_factory=list)
    # Each refresh token that it gave.
    given: list[str] = field(default_factory=list)
    _codes: dict[str, tuple[dict[str, str], dict[str, Any]]] = field(default_factory=dict)
    _refresh: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        """Its issuer, exactly."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def rotate(self) -> None:
        """Sign with another key from now on, and publish that alone."""
        self.key, self.kid = ec.generate_private_key(ec.SECP256R1()), secrets.token_hex(4)

    def sent_back(self, url: str, subject: str, **claims: Any) -> dict[str, Any]:
        """What a browser that was sent to `url` is sent back with, once its owner signed in as `subject`."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{self.issuer}/authorize?") and asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT and asked["code_challenge_method"] == "S256" and len(asked["nonce"]) >= 32
        code = secrets.token_urlsafe(16)
        self._codes[code] = (asked, {"sub": subject, **claims})
        return {"state": asked["state"], "code": code, "issuer": self.issuer}

    def answer(self, method: str, path: str, headers: Any, body: str) -> tuple[int, dict[str, Any]]:
        """What it answers to a request."""
        self.asked.append(f"{method} {path}")
        if self.away:
            return 502, {}
        if path == "/.well-known/openid-configuration":
            return 200, self._about()
        if path == "/keys":
            public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
            return 200, {"keys": [{**public, "kid": self.kid, "use": "sig"}]}
        if path == "/userinfo" and (self.revoked or not self.tells):
            return 401 if self.revoked else 503, {}
        if path == "/userinfo":
            return 200, {"sub": headers["Authorization"].removeprefix("Bearer "), **self.userinfo}
        return self._token(headers, {name: values[0] for name, values in parse_qs(body).items()})

    def _about(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            **({"userinfo_endpoint": f"{self.issuer}/userinfo"} if self.shows else {}),
            "authorization_response_iss_parameter_supported": True,
        }
        return {**found, **self.discovery}

    def _token(self, headers: Any, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        kind, _, pair = headers.get("Authorization", "").partition(" ")
        who = [unquote_plus(part) for part in base64.b64decode(pair).decode().split(":", 1)] if kind == "Basic" else []
        if who != [CLIENT, SECRET]:
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            # Each counts once, as where they are rotated.
            kept = self._refresh.pop(form["refresh_token"], None)
            if self.revoked or kept is None:
                return 400, {"error": "invalid_grant"}
            return 200, self._given(kept, {})
        asked, claims = self._codes.pop(form["code"], ({}, {}))
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (asked.get("code_challenge"), asked.get("redirect_uri")) != (challenge, form["redirect_uri"]):
            return 400, {"error": "invalid_grant"}
        return 200, self._given(claims, {"nonce": asked["nonce"]})

    def _given(self, claims: dict[str, Any], request: dict[str, str]) -> dict[str, Any]:
        """The tokens of somebody; those of a request name it."""
        now = int(time.time())
        token = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, **request}
        token = {name: value for name, value in {**token, **claims, **self.claims}.items() if value is not None}
        key = self.key if self.signs is None else self.signs
        signed = jwt.encode(token, key, self.algorithm, {"kid": self.named or self.kid})
        tokens = {"id_token": signed, "access_token": claims["sub"], "token_type": "Bearer"}
        if self.refreshes:
            refresh = secrets.token_urlsafe(16)
            self._refresh[refresh] = claims
            self.given.append(refresh)
            tokens["refresh_token"] = refresh
        return tokens


class _Handler(BaseHTTPRequestHandler):
    double: Double

    def do_GET(self) -> None:
        self._answer("")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, body: str) -> None:
        status, answer = self.double.answer(self.command, self.path, self.headers, body)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def running() -> Iterator[Double]:
    """A provider on a free port, gone at the end."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        double = Double(server)
        handler.double = double  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()
