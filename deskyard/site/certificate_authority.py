"""The site's own certificate authority: signs the certificates of its gateways, and nothing else."""

import datetime
import os
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deskyard.errors import SiteError
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import opened, write_secret

AUTHORITY_DAYS = 3650
# Browsers refuse longer ones.
LEAF_DAYS = 397
# Clocks differ.
BEFORE = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Authority:
    """Key and certificate of a site's authority."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def sign(self, request: str, hostname: str, *more: str) -> str:
        """Sign a request for `hostname` and `more`; names in the request itself are not trusted. Returns PEM."""
        csr = x509.load_pem_x509_csr(request.encode())
        if not csr.is_signature_valid:
            raise SiteError("certificate", hostname, "the gateway's request is not signed by its key", "retry")
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.DNSName(name) for name in (hostname, *more)]
        leaf = (
            x509.CertificateBuilder()
            .subject_name(_name(hostname))
            .issuer_name(self.certificate.subject)
            .public_key(csr.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BEFORE)
            .not_valid_after(now + datetime.timedelta(days=LEAF_DAYS))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return leaf.public_bytes(serialization.Encoding.PEM).decode()


def authority(site: str, domain: str) -> Authority:
    """The site's authority, made at first use. It can sign for names below `domain` only."""
    with alone("certificate-authority"):
        return _authority(site, domain)


def _authority(site: str, domain: str) -> Authority:
    key_file = places().sites / site / "ca.key"
    certificate = places().authority(site)
    if not (key_file.exists() and certificate.exists()):
        fresh = _make(site, domain)
        write_secret(
            key_file,
            fresh.key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        with os.fdopen(opened(certificate, os.O_WRONLY | os.O_TRUNC, 0o644), "wb") as file:
            file.write(fresh.certificate.public_bytes(serialization.Encoding.PEM))
        return fresh
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Authority(x509.load_pem_x509_certificate(certificate.read_bytes()), key)


def expires(pem: str) -> datetime.datetime:
    """When the first certificate of a PEM text ends."""
    return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc


def _make(site: str, domain: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = _name(f"Deskyard site {site}")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.NameConstraints(permitted_subtrees=[x509.DNSName(domain)], excluded_subtrees=None), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def _name(text: str) -> x509.Name:
    # A common name holds at most 64 characters; browsers read the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
