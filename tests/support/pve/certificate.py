"""An authority of one test, and the certificate of the API that it signs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority that clients trust, the API's certificate and key."""

    authority: Path
    certificate: Path
    key: Path
    fingerprint: str


def issue(folder: Path, *hosts: str) -> Certificates:
    """Make an authority and let it sign a certificate for 127.0.0.1, and for hosts beside."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _sign(_name("test authority"), authority_key, _name("test authority"), authority_key, None)
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(IPv4Address("127.0.0.1")), *(x509.DNSName(host) for host in ("localhost", *hosts))]
    )
    certificate = _sign(_name("pve1"), key, _name("test authority"), authority_key, names)
    made = Certificates(
        folder / "authority.pem",
        folder / "api.pem",
        folder / "api.key",
        certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
    )
    made.authority.write_bytes(authority.public_bytes(form.Encoding.PEM))
    made.certificate.write_bytes(certificate.public_bytes(form.Encoding.PEM))
    made.key.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    names: x509.SubjectAlternativeName | None,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=names is None, path_length=None), critical=True)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
