"""SSH key pairs of a site, each a file that only its owner can read, made at first use."""

from pathlib import Path

from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret


def private_key_file(site: str, name: str) -> Path:
    """The private key of this name."""
    path = places().sites / site / name
    with alone("site-keys"):
        if not path.exists():
            write_secret(path, _new_key())
    return path


def public_key(site: str, name: str, comment: str) -> str:
    """The public key as a line of `authorized_keys`."""
    # Late, as below: who looks at a workspace needs no key.
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_ssh_private_key(private_key_file(site, name).read_bytes(), password=None)
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{line.decode()} {comment}"


def _new_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
