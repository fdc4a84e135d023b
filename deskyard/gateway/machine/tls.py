"""The door's own key and certificate. The key is made here and never leaves, unless the site brings its own."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deskyard.errors import GatewayError
from deskyard.gateway.machine import files

REMEDY = "sign the request that `deskyard-gateway csr` prints and send that certificate"


@dataclass(frozen=True)
class Pair:
    """A certificate chain that was checked, and its key, both as PEM."""

    chain: str
    key: str
    expires: datetime


def ensure_key(path: Path) -> str:
    """Make the key if there is none; its PEM."""
    existing = files.read(path)
    if existing is not None:
        return existing
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()).decode()
    files.write(path, pem, 0o600)
    return pem


def request(key_pem: str, hostname: str) -> str:
    """A signing request for `hostname`, as PEM."""
    key = _load_key(key_pem)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostname[:64])])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(hostname)]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(form.Encoding.PEM).decode()


def self_signed(key_pem: str, hostname: str) -> str:
    """A certificate that nobody trusts, to check a configuration with before the real one is there."""
    key = _load_key(key_pem)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostname[:64])])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(hostname)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(form.Encoding.PEM).decode()


def check(text: str, own_key_pem: str | None, hostname: str) -> Pair:
    """Check a PEM chain, optionally with its private key, against the key and the host name."""
    own_key_pem = _private_part(text) or own_key_pem
    if own_key_pem is None:
        raise GatewayError("certificate", None, "there is no key that it could fit", REMEDY)
    try:
        chain = x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        raise GatewayError("certificate", None, "is no PEM certificate chain", REMEDY) from error
    leaf = chain[0]
    if _public(leaf.public_key()) != _public(_load_key(own_key_pem).public_key()):
        raise GatewayError("certificate", None, "does not fit the gateway's key", REMEDY)
    if not _covers(leaf, hostname):
        raise GatewayError("certificate", hostname, "is not a name of this certificate", REMEDY)
    if leaf.not_valid_after_utc <= datetime.now(UTC):
        raise GatewayError("certificate", str(leaf.not_valid_after_utc), "has expired", REMEDY)
    for child, parent in pairwise(chain):
        _check_link(child, parent)
    pem = "".join(part.public_bytes(form.Encoding.PEM).decode() for part in chain)
    return Pair(pem, own_key_pem, leaf.not_valid_after_utc)


def validity(bundle: Path) -> tuple[datetime, datetime] | None:
    """From when to when the installed certificate is good."""
    leaf = _installed(bundle)
    return (leaf.not_valid_before_utc, leaf.not_valid_after_utc) if leaf else None


def fingerprint(bundle: Path) -> str | None:
    """Tells the installed certificate from all others."""
    leaf = _installed(bundle)
    return leaf.fingerprint(hashes.SHA256()).hex() if leaf else None


def covers(bundle: Path, hostname: str) -> bool:
    """Whether the installed certificate is for this name."""
    leaf = _installed(bundle)
    return leaf is not None and _covers(leaf, hostname)


def _installed(bundle: Path) -> x509.Certificate | None:
    text = files.read(bundle)
    return x509.load_pem_x509_certificates(text.encode())[0] if text else None


def _check_link(child: x509.Certificate, parent: x509.Certificate) -> None:
    try:
        child.verify_directly_issued_by(parent)
    except Exception as error:  # three kinds, by what differs: name, signature, key type
        reason = "is not signed by the next one of the chain"
        raise GatewayError("certificate", child.subject.rfc4514_string(), reason, REMEDY) from error


def _covers(leaf: x509.Certificate, hostname: str) -> bool:
    try:
        extension = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return False
    names = extension.value.get_values_for_type(x509.DNSName)
    parent = hostname.partition(".")[2]
    return any(name.lower() in (hostname, f"*.{parent}") for name in names)


def _private_part(text: str) -> str | None:
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("-----BEGIN") and "PRIVATE KEY" in line]
    if not starts:
        return None
    ends = [n for n, line in enumerate(lines) if line.startswith("-----END") and "PRIVATE KEY" in line]
    if len(starts) != 1 or len(ends) != 1:
        raise GatewayError("certificate", None, "carries more than one private key", REMEDY)
    return "\n".join(lines[starts[0] : ends[0] + 1]) + "\n"


def _load_key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = form.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError) as error:
        raise GatewayError("certificate", None, "carries a private key that cannot be read", REMEDY) from error
    # RSA works the same for everything used here; the type says EC because our own keys are.
    return key  # type: ignore[return-value]


def _public(key: object) -> bytes:
    return key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined, no-any-return]
