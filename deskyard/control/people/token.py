"""Tokens of sessions and links: nobody guesses them, and of a session's no more than a hash is kept."""

import hashlib
import secrets


def token_hash(token: str) -> bytes:
    """The hash that is kept of a session's token."""
    return hashlib.sha256(token.encode()).digest()


def fresh_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(32)
