"""A page that asks for a link: its pair of keys, of which the private half stays there, and what it can unseal."""

import json
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from webauthn.helpers import base64url_to_bytes

from deskyard.control.opening import seal
from deskyard.control.opening.target import session_target


@dataclass
class Tab:
    """It does as the API's description says; Chromium's own (tests/web) is the independent witness."""

    own: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(seal.CURVE))

    @property
    def key(self) -> str:
        """The public half, as it is sent."""
        return seal.written(self.own.public_key())

    def wanted(self, **how: Any) -> dict[str, Any]:
        """The body of a request for a link."""
        return {"mode": "drive", "sealTo": self.key, **how}

    def target(self, mode: str = "drive", desktop: str = "lab.first") -> str:
        """The line that is signed for it."""
        return session_target(desktop, {"mode": mode, "seal_to": self.key})

    def opens(self, sealed: dict[str, str], target: str) -> Any:
        """The secret; raises `InvalidTag` for what was sealed to another key, or for another operation."""
        point = base64url_to_bytes(sealed["key"])
        shared = self.own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(seal.CURVE, point))
        info = b"deskyard link\0" + point + base64url_to_bytes(self.key) + target.encode()
        key = HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(shared)
        return json.loads(AESGCM(key).decrypt(bytes(12), base64url_to_bytes(sealed["box"]), None))
