"""What a build VM takes over of this machine's network."""

from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.host.command import run
from deskyard.image.build import network as module
from deskyard.image.build.network import AUTHORITIES, NPM_REGISTRY, PYPI_INDEX, BuildNetwork, build_network

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA/+==\n-----END CERTIFICATE-----"
MIRROR = "https://npm.example.com:8443/some_path/"


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the authorities that this machine's administrator added."""
    for variable in (AUTHORITIES, NPM_REGISTRY, PYPI_INDEX):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "added"
    monkeypatch.setattr(module, "ADDED", folder)
    return folder


def test_machine_without_any_of_it_gives_nothing() -> None:
    network = build_network()
    assert network == BuildNetwork()
    assert (network.environment, network.sshd_options, network.script) == ({}, "", "")


def test_authorities_that_the_machine_added_are_taken_over_and_nothing_beside_them(added: Path) -> None:
    (added / "company").mkdir(parents=True)
    (added / "a.crt").write_text(f"of $(us)\n{CERTIFICATE}\n")
    (added / "company/b.crt").write_text(CERTIFICATE.replace("AAAA", "BBBB"))
    (added / "c.pem").write_text(CERTIFICATE.replace("AAAA", "CCCC"))
    network = build_network()
    assert network.authorities == f"{CERTIFICATE}\n{CERTIFICATE.replace('AAAA', 'BBBB')}"
    assert "$" not in network.authorities
    assert network.environment["SSL_CERT_FILE"] == "/run/deskyard-build/authorities.pem"


def test_chosen_authorities_stand_for_those_that_were_added(
    added: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added.mkdir()
    (added / "a.crt").write_text(CERTIFICATE.replace("AAAA", "BBBB"))
    (tmp_path / "chosen.pem").write_text(CERTIFICATE)
    monkeypatch.setenv(AUTHORITIES, str(tmp_path / "chosen.pem"))
    assert build_network().authorities == CERTIFICATE


def test_mirrors_are_what_npm_and_pip_find_in_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NPM_REGISTRY, MIRROR)
    monkeypatch.setenv(PYPI_INDEX, "http://10.0.2.2:3141/simple")
    network = build_network()
    assert network.environment == {"NPM_CONFIG_REGISTRY": MIRROR, "PIP_INDEX_URL": "http://10.0.2.2:3141/simple"}
    assert network.sshd_options == (
        f' -o "SetEnv=NPM_CONFIG_REGISTRY={MIRROR} PIP_INDEX_URL=http://10.0.2.2:3141/simple"'
    )
    assert network.script == ""


@pytest.mark.parametrize("variable", [NPM_REGISTRY, PYPI_INDEX])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("npm.example.com", "no address"),
        ('https://npm.example.com/" -o "PermitEmptyPasswords=yes', "no address"),
        ("https://npm.example.com/$(id)", "no address"),
        ("https://npm.example.com/%h", "no address"),
        ("http://localhost:4873/", "build VM itself"),
        ("http://127.0.0.1:4873/", "build VM itself"),
    ],
)
def test_address_that_cannot_be_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=reason) as refused:
        build_network()
    assert refused.value.field == variable


def test_address_with_a_password_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYPI_INDEX, "https://me:canary@pypi.example.com/simple")
    with pytest.raises(ConfigError, match="holds an account") as refused:
        build_network()
    assert "canary" not in str(refused.value)


def test_file_that_is_missing_or_holds_no_certificate_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AUTHORITIES, str(tmp_path / "none.pem"))
    with pytest.raises(ConfigError, match="cannot be read"):
        build_network()
    (tmp_path / "none.pem").write_text("a key\n")
    with pytest.raises(ConfigError, match="holds no certificate"):
        build_network()


def test_script_adds_the_authorities_to_those_of_the_image_below_run(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs/ca-certificates.crt").write_text("of the image\n")
    script = BuildNetwork(authorities=CERTIFICATE).script
    folder = tmp_path / "run"
    there = script.replace("/etc/ssl/certs", str(tmp_path / "certs")).replace("/run/deskyard-build", str(folder))
    run(["sh", "-ec", there], timeout=30)
    assert (folder / "authorities.pem").read_text() == f"of the image\n{CERTIFICATE}\n"
    assert (folder / "apt.conf").read_text() == f'Acquire::https::CAInfo "{folder}/authorities.pem";\n'
    assert (tmp_path / "certs/ca-certificates.crt").read_text() == "of the image\n"


@pytest.mark.parametrize(
    ("registry", "here"),
    [
        ("", ""),
        ("https://npm.example.com/", "https://npm.example.com/"),
        ("http://10.0.2.2:4873/", "http://127.0.0.1:4873/"),
        ("http://10.0.2.20/", "http://10.0.2.20/"),
    ],
)
def test_a_mirror_on_the_machine_that_builds_is_reached_there_by_its_own_address(registry: str, here: str) -> None:
    assert BuildNetwork(npm_registry=registry).npm_registry_here == here
