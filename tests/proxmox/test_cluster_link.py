"""What the engine's plugin is given: the token by one variable, and the one certificate that it may trust."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.engine.environment import environment
from deskyard.errors import ConfigError, SiteError
from deskyard.host.places import places
from deskyard.model.site import Site
from deskyard.site.proxmox import plugin
from tests.support.pve import Peer
from tests.unit.site.stub import site_values

TOKEN = "deskyard@pve!one=canary-2b71-secret"


@pytest.fixture
def site(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The values of a site on the peer, without whom to trust."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    yield site_values(peer.endpoint, token_file=str(tmp_path / "token"))


def trusting(values: dict[str, Any], **trust: Any) -> Site:
    """That site, with whom to trust."""
    values["proxmox"] = {key: value for key, value in values["proxmox"].items() if key not in ("ca", "fingerprint")}
    return Site.check({**values, "proxmox": {**values["proxmox"], **trust}}, "rack.yaml")


def kept() -> list[Path]:
    """Certificates that were written."""
    return list(places().sites.rglob("*.pem"))


def test_an_authority_of_the_site_is_the_only_one_that_is_trusted(site: dict[str, Any], peer: Peer) -> None:
    found = plugin.plugin_environment(trusting(site, ca=str(peer.certificates.authority)))
    assert found == {
        "DESKYARD_PLUGIN_TOKEN": TOKEN,
        "DESKYARD_PLUGIN_ROOTS": str(peer.certificates.authority),
    }


def test_without_one_this_machines_authorities_are_trusted(site: dict[str, Any]) -> None:
    assert plugin.plugin_environment(trusting(site)) == {"DESKYARD_PLUGIN_TOKEN": TOKEN}


@pytest.mark.parametrize("write", [str.upper, str.lower])
def test_the_certificate_of_the_fingerprint_is_the_only_one_that_is_trusted(
    site: dict[str, Any], peer: Peer, write: Any
) -> None:
    found = plugin.roots_file(trusting(site, fingerprint=write(peer.certificates.fingerprint)))
    assert found is not None
    assert found.read_text().strip() == peer.certificates.certificate.read_text().strip()
    assert kept() == [found]


def test_another_certificate_than_that_of_the_fingerprint_is_refused_and_not_kept(
    site: dict[str, Any], peer: Peer
) -> None:
    other = "AA" * 32
    with pytest.raises(SiteError, match=r"shows another certificate") as caught:
        plugin.plugin_environment(trusting(site, fingerprint=":".join(other[i : i + 2] for i in range(0, 64, 2))))
    # Enough to find out which one it is.
    assert peer.certificates.fingerprint.replace(":", "").lower() in caught.value.reason
    assert kept() == []
    assert len(peer.fake.calls) == 0


def test_an_api_that_does_not_answer_is_told_by_its_address(site: dict[str, Any], peer: Peer) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        site["proxmox"]["endpoint"] = f"https://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(SiteError, match=r"127\.0\.0\.1:\d+.*does not answer"):
            plugin.roots_file(trusting(site, fingerprint=peer.certificates.fingerprint))


def test_without_a_token_nothing_is_begun(site: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match="token_file") as caught:
        plugin.plugin_environment(trusting(site))
    assert "canary" not in str(caught.value)


def test_the_token_has_a_name_that_no_other_program_reads(site: dict[str, Any], peer: Peer) -> None:
    given = environment(trusting(site, ca=str(peer.certificates.authority)))
    assert [name for name, value in given.items() if TOKEN.partition("=")[2] in value] == ["DESKYARD_PLUGIN_TOKEN"]
    assert "SSL_CERT_FILE" not in given
