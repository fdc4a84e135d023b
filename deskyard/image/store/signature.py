"""Signs manifests of images, and checks them, in minisign's format: the program of that name can do both as well."""

import base64
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from minisign import KeyPair, ParseError, PublicKey, SecretKey, Signature, VerifyError

from deskyard.errors import ConfigError
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret

# Where the parts of a public key and of a signature end, once decoded: algorithm, key id, key or signature.
ALGORITHM, KEY_ID = 2, 10


@dataclass(frozen=True)
class Fault:
    """A mismatch: of the `signature` itself, or the `manifest` that it was made for."""

    part: str
    reason: str


def secret_key_file() -> Path:
    """The user's key for signing images, readable by its owner only; its public half lies beside it as `.pub`."""
    return places().state / "keys" / "image.key"


def public_key_file() -> Path:
    """The public half of the user's key; whoever is given an image needs it."""
    return secret_key_file().with_suffix(".pub")


def ensure_key() -> None:
    """Make the pair of keys at first use; raises `ConfigError` if the one that is there cannot sign."""
    with alone("image-key"):
        if not secret_key_file().exists():
            _make_pair()
        with _secret_key() as key:
            public = key.get_public_key()
        if not public_key_file().exists():
            _write_public(public)
        elif read_public_key() != public:
            reason = f"is not the public half of {secret_key_file()}"
            raise ConfigError("key", str(public_key_file()), reason, "remove it: it is made again from the secret half")


def sign(content: bytes, comment: str) -> bytes:
    """The signature of `content` by the user's key; `comment` is signed too."""
    ensure_key()
    with _secret_key() as key:
        return bytes(key.sign(content, trusted_comment=comment)) + b"\n"


def read_public_key(path: Path | None = None) -> PublicKey:
    """The public key in `path`, by default the user's own; none is made."""
    path = path or public_key_file()
    try:
        return PublicKey.from_bytes(path.read_bytes())
    except OSError as error:
        remedy = "name its builder's public key with --key; an image that was built here: ./inv image.sign"
        raise ConfigError("key", str(path), f"cannot be read: {error.strerror}", remedy) from error
    except ParseError as error:
        reason = f"is no public key of minisign: {error}"
        raise ConfigError("key", str(path), reason, "name a file that minisign -G or Deskyard wrote") from error


def key_id(key: PublicKey) -> str:
    """The id that minisign gives a key."""
    return _id_of(base64.b64decode(key.to_base64()))


def fault(content: bytes, signature: bytes, key: PublicKey) -> Fault | None:
    """The fault if `signature` is not that of `content` by `key`; nothing if it is."""
    try:
        parsed = Signature.from_bytes(signature)
    except ParseError as error:
        return Fault("signature", f"is no signature of minisign: {error}")
    if bytes(parsed) != signature.removesuffix(b"\n"):
        return Fault("signature", "is not written as minisign writes it")
    try:
        key.verify(content, parsed)
    except VerifyError:
        return _blame(signature, parsed, key)
    return None


def _blame(signature: bytes, parsed: Signature, key: PublicKey) -> Fault:
    """Tell a signature that was changed from one that is whole and of something else."""
    lines = signature.splitlines()
    own, public = base64.b64decode(lines[1]), base64.b64decode(key.to_base64())
    if own[ALGORITHM:KEY_ID] != public[ALGORITHM:KEY_ID]:
        return Fault("signature", f"was made with key {_id_of(own)}, not with {_id_of(public)}")
    try:
        # The second signature covers the first and the comment, but not the content.
        Ed25519PublicKey.from_public_bytes(public[KEY_ID:]).verify(
            base64.b64decode(lines[3]), own[KEY_ID:] + parsed.trusted_comment.encode()
        )
    except InvalidSignature:
        return Fault("signature", f"was changed, or was not made with key {_id_of(public)}")
    return Fault("manifest", "is not the one that was signed")


def _id_of(decoded: bytes) -> str:
    return decoded[ALGORITHM:KEY_ID][::-1].hex().upper()


def _make_pair() -> None:
    if public_key_file().exists():
        reason = "is missing, but its public half is there"
        remedy = f"put it back, or remove {public_key_file()} to have a new pair made"
        raise ConfigError("key", str(secret_key_file()), reason, remedy)
    with KeyPair.generate().secret_key as key:
        write_secret(secret_key_file(), bytes(key) + b"\n")


def _secret_key() -> SecretKey:
    path = secret_key_file()
    try:
        key = SecretKey.from_file(path)
    except ParseError as error:
        reason = f"is no secret key of minisign: {error}"
        raise ConfigError("key", str(path), reason, "put the key back, or remove both halves") from error
    if key.is_encrypted():
        remedy = f"take the password off: minisign -C -W -s {path}"
        raise ConfigError("key", str(path), "has a password, which nobody could type during a build", remedy)
    return key


def _write_public(key: PublicKey) -> None:
    key.untrusted_comment = f"minisign public key {key_id(key)}"
    draft = public_key_file().with_suffix(".draft")
    draft.write_bytes(bytes(key) + b"\n")
    draft.rename(public_key_file())
