"""The hashes of a link that enrols a passkey: nobody can make the link of the one that the database holds."""

import hashlib


def shown(token: str) -> bytes:
    """The hash that the web process tells the worker of a link that somebody brought."""
    return hashlib.sha256(token.encode()).digest()


def kept(shown: bytes) -> bytes:
    """The hash of `shown`, which the database holds: the web process reads it and cannot turn it back."""
    return hashlib.sha256(shown).digest()
