"""Seals a link to the key of the browser that asked for it: whoever carries the answer there cannot open it.

ECDH over P-256, HKDF and AES-GCM, each as every browser has it (`web/src/api/seal.ts`); HPKE is in none.
"""

import hashlib
import json
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url

from deskyard.errors import ConfigError

CURVE = ec.SECP256R1()
# Its bytes are the uncompressed point: 65, in base64url.
LENGTH = 87
PATTERN = rf"^[A-Za-z0-9_-]{{{LENGTH}}}$"
PURPOSE = b"deskyard link\0"
KEY_BYTES, SHOWN = 32, 32
# Each link has a key of its own, by a fresh pair: no nonce is used twice with one.
NONCE = bytes(12)
REMEDY = "send the raw public key of a fresh ECDH pair on P-256, in base64url"


def fingerprint(key: str) -> str:
    """The part of a key that a person signs: 128 bits of its hash, for which nobody finds another key."""
    return hashlib.sha256(base64url_to_bytes(key)).hexdigest()[:SHOWN]


def written(key: ec.EllipticCurvePublicKey) -> str:
    """A public key as it is sent."""
    return bytes_to_base64url(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def recipient(key: str) -> ec.EllipticCurvePublicKey:
    """The key of a browser; raises `ConfigError` for what is none."""
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(CURVE, base64url_to_bytes(key))
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError("sealTo", None, "is no key that a link can be sealed to", REMEDY) from error


def sealed(secret: Any, key: str, target: str) -> dict[str, str]:
    """A secret that the holder of the key alone can read, of an operation whose `target` was signed."""
    own = ec.generate_private_key(CURVE)
    point = written(own.public_key())
    # Bound to both keys, and to what was signed.
    info = PURPOSE + base64url_to_bytes(point) + base64url_to_bytes(key) + target.encode()
    shared = own.exchange(ec.ECDH(), recipient(key))
    cipher = AESGCM(HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=info).derive(shared))
    return {"key": point, "box": bytes_to_base64url(cipher.encrypt(NONCE, json.dumps(secret).encode(), None))}
