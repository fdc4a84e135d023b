"""The door takes only a certificate that fits its key, its name and the day."""

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.machine import tls
from tests.gateway.authority import Authority

NAME = "demo.desk.test"


@pytest.fixture
def key(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tls.ensure_key(tmp_path_factory.mktemp("tls") / "key.pem")


def test_signed_request_fits(key: str) -> None:
    authority = Authority()
    pair = tls.check(authority.sign(tls.request(key, NAME)) + authority.pem, key, NAME)
    assert pair.chain.count("BEGIN CERTIFICATE") == 2
    assert pair.key == key


def test_certificate_of_another_key_is_refused(key: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tls.ensure_key(tmp_path_factory.mktemp("other") / "key.pem")
    with pytest.raises(GatewayError, match="does not fit"):
        tls.check(Authority().sign(tls.request(other, NAME)), key, NAME)


def test_certificate_that_brings_its_key_is_taken_with_it(key: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tls.ensure_key(tmp_path_factory.mktemp("other") / "key.pem")
    pair = tls.check(Authority().sign(tls.request(other, NAME)) + other, key, NAME)
    assert pair.key == other


def test_certificate_for_another_name_is_refused(key: str) -> None:
    with pytest.raises(GatewayError, match="is not a name"):
        tls.check(Authority().sign(tls.request(key, "evil.test")), key, NAME)


def test_expired_certificate_is_refused(key: str) -> None:
    with pytest.raises(GatewayError, match="has expired"):
        tls.check(Authority().sign(tls.request(key, NAME), days=-1), key, NAME)


def test_chain_whose_links_do_not_hold_is_refused(key: str) -> None:
    with pytest.raises(GatewayError, match="not signed by the next"):
        tls.check(Authority().sign(tls.request(key, NAME)) + Authority().pem, key, NAME)


@pytest.mark.parametrize("text", ["", "rubbish", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_rubbish_is_refused(key: str, text: str) -> None:
    with pytest.raises(GatewayError):
        tls.check(text, key, NAME)
