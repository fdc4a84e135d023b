"""A person whose passkey signs answers to tickets as Mission Control's pages have it done, and wrongly where wanted."""

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from webauthn.helpers import bytes_to_base64url

from deskyard.control.approvals.target import KIND, target
from deskyard.control.people.intent import LIFE_SECONDS, Intent
from tests.control.authenticator import Authenticator

ORIGIN = "https://mission.localhost:9443"
WORKSPACE = "demo"


@dataclass
class Signer:
    """A person with a passkey."""

    name: str
    passkey: Authenticator = field(default_factory=lambda: Authenticator(ORIGIN))

    def row(self) -> dict[str, Any]:
        """The passkey as a gateway's list has it."""
        key = self.passkey.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        return {"person": self.name, "id": bytes_to_base64url(self.passkey.id), "algorithm": -7, "key": key}

    def proof(self, ticket: dict[str, Any], answer: str, **changes: Any) -> dict[str, Any]:
        """The proof of an answer to a ticket as a gateway shows it; `changes` are of the intent."""
        named = {**ticket, "id": f"{WORKSPACE}.{ticket['id']}", "desktop_id": f"{WORKSPACE}.{ticket['desktop']}"}
        values: dict[str, Any] = {"kind": KIND, "target": target(named, answer), "nonce": secrets.token_hex(16)}
        values |= {"expires_at": int(time.time()) + LIFE_SECONDS - 5, **changes}
        intent = Intent.parsed(values)
        asked = {"challenge": bytes_to_base64url(intent.challenge)}
        return {"intent": intent.as_dict(), "credential": self.passkey.get(asked)}


def listed(*signers: Signer, persons: int = 1, origin: str = ORIGIN) -> dict[str, Any]:
    """The list of who may answer."""
    return {"origin": origin, "persons": persons, "passkeys": [signer.row() for signer in signers]}
