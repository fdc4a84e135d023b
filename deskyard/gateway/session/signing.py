"""Keys that sign sessions; made in the gateway, never leave it."""

from pathlib import Path

from deskyard.errors import GatewayError
from deskyard.gateway.machine import files


def ensure(folder: Path, group: str | None) -> list[str]:
    """Make the first key if there is none; the ids of all keys, oldest first."""
    existing = kids(folder)
    return existing or [create(folder, "k1", group)]


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
    """Ids of the keys whose cookies are accepted, oldest first."""
    names = [path.stem for path in folder.glob("k*.pub")]
    return sorted(names, key=lambda name: (len(name), name))


def next_kid(folder: Path) -> str:
    """An id that no key had before."""
    used = [int(kid[1:]) for kid in (*kids(folder), active(folder)) if kid[1:].isdigit()]
    return f"k{max(used, default=0) + 1}"


def active(folder: Path) -> str:
    """The id of the key to sign with: published to HAProxy before it signs anything."""
    chosen = (files.read(folder / "active") or "").strip()
    if chosen:
        return chosen
    existing = kids(folder)
    if not existing:
        raise GatewayError("signing key", None, "does not exist", "run deskyard-gateway apply first")
    return existing[-1]


def newest(folder: Path) -> tuple[str, str]:
    """Id and PEM of the key to sign with."""
    kid = active(folder)
    return kid, (folder / f"{kid}.key").read_text()


def public(folder: Path) -> dict[str, str]:
    """All public keys by id."""
    return {kid: (folder / f"{kid}.pub").read_text() for kid in kids(folder)}


class Ring:
    """The keys as the session service holds them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.reload()

    def reload(self) -> None:
        """Read them anew: after a rotation."""
        self.kid, self.private = newest(self._folder)
        self.public = public(self._folder)
