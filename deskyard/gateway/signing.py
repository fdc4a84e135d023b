"""Keys that sign sessions; made in the gateway, never leave it."""

from pathlib import Path

from deskyard.gateway import files
from deskyard.gateway.errors import GatewayError


def ensure(folder: Path, group: str | None) -> list[str]:
    """Make the first key if there is none; the ids of all keys, oldest first."""
    known = kids(folder)
    return known or [create(folder, "k1", group)]


def create(folder: Path, kid: str, group: str | None) -> str:
    """Make a P-256 key: the private part readable by `group` (the session service), the public one by all."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    files.write(folder / f"{kid}.pub", public.decode())
    files.write(folder / f"{kid}.key", private.decode(), 0o640, group)
    return kid


def kids(folder: Path) -> list[str]:
    """Ids of the keys that have both parts, oldest first."""
    names = [path.stem for path in folder.glob("k*.key") if path.with_suffix(".pub").exists()]
    return sorted(names, key=lambda name: (len(name), name))


def newest(folder: Path) -> tuple[str, str]:
    """Id and PEM of the key to sign with."""
    known = kids(folder)
    if not known:
        raise GatewayError("signing key", None, "does not exist", "run deskyard-gateway apply first")
    return known[-1], (folder / f"{known[-1]}.key").read_text()


def public(folder: Path) -> dict[str, str]:
    """All public keys by id."""
    return {kid: (folder / f"{kid}.pub").read_text() for kid in kids(folder)}
