"""The site's SSH key pair: with it, and it alone, Deskyard manages the machines of the site."""

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deskyard.run.lock import alone
from deskyard.run.places import places

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


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
