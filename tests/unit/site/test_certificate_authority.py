"""The site's authority signs what it should, under names it may."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deskyard.site import certificate_authority


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))


def _request(name: str) -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def test_authority_is_made_once() -> None:
    first = certificate_authority.authority("local", "localhost")
    second = certificate_authority.authority("local", "localhost")
    assert first.certificate == second.certificate


def test_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    certificate_authority.authority("local", "localhost")
    assert (tmp_path / "state/sites/local/ca.key").stat().st_mode & 0o777 == 0o600


def test_certificate_is_for_the_planned_name_whatever_the_gateway_asks() -> None:
    authority = certificate_authority.authority("local", "localhost")
    leaf = x509.load_pem_x509_certificate(authority.sign(_request("bank.example"), "lab.localhost").encode())
    leaf.verify_directly_issued_by(authority.certificate)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["lab.localhost"]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_authority_is_bound_to_the_site_domain() -> None:
    certificate = certificate_authority.authority("local", "desks.example").certificate
    allowed = certificate.extensions.get_extension_for_class(x509.NameConstraints)
    assert allowed.critical
    assert allowed.value.permitted_subtrees == [x509.DNSName("desks.example")]
