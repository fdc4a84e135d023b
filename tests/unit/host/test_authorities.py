"""Declared authorities: certificates, or none at all; nothing else."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from deskyard.control.identity.declared import Declared
from deskyard.control.watch.mail import MailServer
from deskyard.errors import ConfigError
from deskyard.host.authorities import require_certificates
from tests.support.self_signed import self_signed


def provider(pem: str) -> None:
    Declared("https://login.example.org", "deskyard", authorities=pem).checked()


def mail(pem: str) -> None:
    MailServer("smtp.example.org", "deskyard@example.org", authorities=pem).checked()


@pytest.mark.parametrize("check", [require_certificates, provider, mail])
def test_certificates_are_taken_or_none_and_nothing_else(check: Callable[[str], None]) -> None:
    pem = self_signed("authority", [])[1].public_bytes(Encoding.PEM).decode()
    check("")
    check(pem)
    check(pem + pem)
    for wrong, reason in (
        ("no certificate", "holds no certificate"),
        (pem.replace("M", "!"), "holds no certificate"),
        (pem[:200], "holds no certificate"),
        (f"# Beh\u00f6rde\n{pem}", "has letters that no PEM has"),
    ):
        with pytest.raises(ConfigError, match=reason) as refused:
            check(wrong)
        assert refused.value.field == "--authority" and refused.value.remedy
