"""API keys: made at the host, shown once, kept as hashes; what one may destroy with, the web process cannot forge."""

import hashlib
import hmac
import re
import secrets
import zlib
from dataclasses import dataclass

FORM = re.compile(r"dyk_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})(?P<sum>[0-9a-f]{8})\Z")


@dataclass(frozen=True)
class Key:
    """A key as its owner has it; its text is the secret, and is never printed but by who made it."""

    id: str
    secret: str

    @classmethod
    def fresh(cls) -> "Key":
        """A new one."""
        return cls(secrets.token_hex(6), secrets.token_urlsafe(32))

    @classmethod
    def parsed(cls, text: str) -> "Key | None":
        """The key of a text; None for what has another form, or was copied by halves."""
        match = FORM.match(text)
        if match is None:
            return None
        key = cls(match["id"], match["secret"])
        return key if hmac.compare_digest(key.text, text) else None

    @property
    def text(self) -> str:
        """How it is written; the end finds a typing mistake without asking anybody."""
        body = f"dyk_{self.id}_{self.secret}"
        return f"{body}{zlib.crc32(body.encode()):08x}"

    @property
    def auth_hash(self) -> bytes:
        """The hash that the web process compares; 256 random bits need no slow hash."""
        return hashlib.sha256(b"deskyard key, who asks\0" + self.secret.encode()).digest()

    @property
    def proof_secret(self) -> bytes:
        """The secret that the worker alone keeps: it does not follow from the other hash."""
        return hashlib.sha256(b"deskyard key, what is asked\0" + self.secret.encode()).digest()

    def proof(self, intent: bytes) -> str:
        """That this key was presented for just this intent."""
        return prove(self.proof_secret, intent)


def prove(proof_secret: bytes, intent: bytes) -> str:
    """The proof of an intent by a key's second secret."""
    return hmac.new(proof_secret, intent, hashlib.sha256).hexdigest()
