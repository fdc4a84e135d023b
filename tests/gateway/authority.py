"""A certificate authority of its own for each test."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority for one test."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.pem = self._certificate(self._name, self._key.public_key(), ca=True)

    def sign(self, request: str, days: int = 30) -> str:
        """A certificate for a signing request, as PEM."""
        asked = x509.load_pem_x509_csr(request.encode())
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return self._certificate(asked.subject, asked.public_key(), names=names, days=days)

    def _certificate(self, subject: x509.Name, key: Any, *, names: Any = None, ca: bool = False, days: int = 30) -> str:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(form.Encoding.PEM).decode()
