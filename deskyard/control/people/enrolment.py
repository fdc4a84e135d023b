"""What is known of a link that enrols a passkey: of what the database holds of it nobody can make one."""

import hashlib


def shown(token: str) -> bytes:
    """What the web process tells the worker of a link that somebody brought."""
    return hashlib.sha256(token.encode()).digest()


def kept(shown: bytes) -> bytes:
    """What the database holds of it, which the web process reads and cannot turn back."""
    return hashlib.sha256(shown).digest()
