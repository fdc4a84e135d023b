"""The passkeys' side of the stand-in: what it asks of a browser, and whether the answer fits.

Signatures are not verified here: that is the control plane's work and has its tests there. What a page can do wrong is
to send an answer to another question, or in another form.
"""

import base64
import json
import secrets
from typing import Any

from starlette.requests import Request


class Refused(Exception):
    """An answer that does not fit."""


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def data(written: str) -> bytes:
    return base64.urlsafe_b64decode(written + "=" * (-len(written) % 4))


class Passkeys:
    """Questions that are open, and the credentials that were enrolled."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}
        self.known: list[str] = []

    def creation(self, request: Request) -> dict[str, Any]:
        """The question that makes a passkey."""
        return {
            "challenge": self._challenge("webauthn.create"),
            "rp": {"id": request.url.hostname, "name": "Mission Control"},
            "user": {"id": text(b"ada"), "name": "ada", "displayName": "Ada"},
            "pubKeyCredParams": [{"type": "public-key", "alg": number} for number in (-8, -7, -257)],
            "authenticatorSelection": {"residentKey": "required", "userVerification": "required"},
            "attestation": "none",
            "timeout": 60000,
        }

    def request(self, request: Request) -> dict[str, Any]:
        """The question that a passkey signs."""
        return {
            "challenge": self._challenge("webauthn.get"),
            "rpId": request.url.hostname,
            "userVerification": "required",
            "allowCredentials": [{"type": "public-key", "id": found} for found in self.known],
            "timeout": 60000,
        }

    def answered(self, request: Request, credential: dict[str, Any], kind: str) -> str:
        """The id of the credential, if it answers a question of that kind that was asked and not yet answered."""
        client = json.loads(data(credential["response"]["clientDataJSON"]))
        if self.asked.pop(client["challenge"], None) != kind or client["type"] != kind:
            raise Refused("another question was asked")
        if client["origin"] != str(request.base_url).rstrip("/"):
            raise Refused(f"asked at {client['origin']}")
        if kind == "webauthn.create":
            assert credential["response"]["attestationObject"]
            self.known.append(credential["id"])
        elif credential["id"] not in self.known or not credential["response"]["signature"]:
            raise Refused("not a passkey of anybody here")
        return str(credential["id"])

    def _challenge(self, kind: str) -> str:
        challenge = text(secrets.token_bytes(32))
        self.asked[challenge] = kind
        return challenge
