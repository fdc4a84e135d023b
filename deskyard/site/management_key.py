"""The site's SSH key pair: with it, and it alone, Deskyard manages the machines of the site."""

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret

NAME = "management_ed25519"


def private_key_file(site: str) -> Path:
    """The private key, made at first use, readable by its owner only."""
    path = places().sites / site / NAME
    with alone("management-key"):
        if not path.exists():
            write_secret(path, _new_key())
    return path


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


def public_key(site: str) -> str:
    """The public key as a line of `authorized_keys`."""
    key = serialization.load_ssh_private_key(private_key_file(site).read_bytes(), password=None)
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{line.decode()} deskyard-{site}"
