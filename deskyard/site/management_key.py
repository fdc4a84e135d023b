"""The site's SSH key pair: with it, and it alone, Deskyard manages the machines of the site."""

from pathlib import Path

from deskyard.site import key_pair

NAME = "management_ed25519"


def private_key_file(site: str) -> Path:
    """The private key, made at first use, readable by its owner only."""
    return key_pair.private_key_file(site, NAME)


def public_key(site: str) -> str:
    """The public key as a line of `authorized_keys`."""
    return key_pair.public_key(site, NAME, f"deskyard-{site}")
