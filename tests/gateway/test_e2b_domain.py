"""E2B's unmodified clients by `E2B_DOMAIN`, with a certificate of an authority that `SSL_CERT_FILE` names.

The names are resolved nowhere: a proxy that the environment names takes them all to the program.
"""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl

from tests.gateway.authority import Authority
from tests.gateway.support import Gateway
from tests.gateway.test_e2b import KEY, Played
from tests.support import npm
from tests.support.connect_proxy import ConnectProxy
from tests.support.e2b_door import Served, served

DOMAIN = "e2b.example.test"
ENVD = f"49983-demo--d1.{DOMAIN}"
USE = """
from e2b import Sandbox
try:
    sandbox = Sandbox.connect("demo--d1", request_timeout=20)
    assert sandbox.is_running()
    sandbox.files.write("by-name", "Hello")
    said = sandbox.commands.run("cat by-name; echo , $A", envs={"A": "there"}).stdout, sandbox.files.read("by-name")
    made = Sandbox.create(request_timeout=20)
    print(said, made.commands.run("echo made").stdout, made.kill(), sandbox.get_host(8000))
except Exception as error:
    print(type(error).__name__, error, getattr(error, "__cause__", ""))
"""


def certificate_for(authority: Authority, folder: Path, *names: str) -> tuple[str, str]:
    """The files of a chain for these names, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "key.pem"
    chain.write_text(authority.sign(asked.public_bytes(form.Encoding.PEM).decode()))
    private.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    return str(chain), str(private)


# What e2b 2.45 wants for keys that are not of E2B's own form; newer ones ask for nothing.
ANY_KEY = "E2B_VALIDATE_API_KEY"


@dataclass
class Named:
    """A program that is reached by names, the proxy that takes them there, and the file of its authority."""

    door: Served
    proxy: ConnectProxy
    authority: str

    def environment(self, *, trusts: bool = True, domain: str = DOMAIN) -> dict[str, str]:
        """The variables of a client, and nothing of E2B's besides."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("E2B_") or name == ANY_KEY}
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "NO_PROXY", "no_proxy", "https_proxy", "NODE_EXTRA_CA_CERTS"):
            own.pop(name, None)
        trusted = {"SSL_CERT_FILE": self.authority, "NODE_EXTRA_CA_CERTS": self.authority} if trusts else {}
        return {**own, **trusted, "HTTPS_PROXY": self.proxy.url, "E2B_DOMAIN": domain, "E2B_API_KEY": KEY}

    def used(self, **options: Any) -> str:
        """What E2B's client for Python comes to, in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-c", USE],
            env=self.environment(**options),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout.strip()


@pytest.fixture(params=[DOMAIN])
def named(request: Any, lived: Gateway, authority: str, tmp_path: Path) -> Iterator[Named]:
    states = {"demo.d1": "ready"}

    async def opens(key: str) -> AsyncMissionControl:
        if key != KEY:
            raise DesktopError("caller", "", "is not known here", "sign in", 401)
        return Played(lived, states, authority)

    issuer = Authority()
    (tmp_path / "issuer.pem").write_text(issuer.pem)
    chain, key = certificate_for(issuer, tmp_path, f"api.{DOMAIN}", f"*.{DOMAIN}")
    with served(tmp_path / "e2b.sqlite", opens, certificate=chain, key=key, domain=request.param) as door:
        proxy = ConnectProxy(door.port)
        with proxy.running():
            yield Named(door, proxy, str(tmp_path / "issuer.pem"))


def test_client_reaches_api_and_sandboxes_by_the_domain_with_its_authority(named: Named) -> None:
    said = named.used()
    assert said == f"('Hello, there\\n', 'Hello') made\n True 8000-demo--d1.{DOMAIN}"
    hosts = {host for host in named.proxy.asked if not host.startswith("49983-demo--e2b-")}
    assert hosts == {f"api.{DOMAIN}", ENVD}, "the API, and each sandbox by its own name"
    assert len(named.proxy.asked) == 3


def test_client_that_does_not_know_the_authority_is_refused(named: Named) -> None:
    said = named.used(trusts=False)
    assert said.startswith("ConnectError") and "certificate" in said, said
    assert named.proxy.asked == {f"api.{DOMAIN}"}, "it asked for nothing but a handshake"


@pytest.mark.parametrize("named", ["deskyard.invalid"], indirect=True)
def test_program_without_the_domain_leads_to_no_sandbox(named: Named) -> None:
    said = named.used()
    assert said.startswith("ConnectError") and "not valid for name" in said, said
    assert named.proxy.asked == {f"api.{DOMAIN}", "49983-demo--d1.deskyard.invalid"}


@pytest.mark.parametrize("generation", ["", "/v2"])
def test_both_generations_of_the_paths_are_answered_by_the_domain(named: Named, generation: str) -> None:
    trust = ssl.create_default_context(cafile=named.authority)
    key = {"X-API-Key": KEY}
    with httpx.Client(proxy=named.proxy.url, verify=trust, trust_env=False) as client:
        api = f"https://api.{DOMAIN}{generation}"
        made = client.post(f"{api}/sandboxes", json={"templateID": "base"}, headers=key)
        assert (made.status_code, made.json()["domain"]) == (201, DOMAIN)
        joined = client.post(f"{api}/sandboxes/demo--d1/connect", json={"timeout": 60}, headers=key).json()
        assert joined["domain"] == DOMAIN
        token = {"X-Access-Token": joined["envdAccessToken"]}
        # Older clients name the sandbox by the host alone.
        assert client.get(f"https://{ENVD}/health", headers=token).status_code == 204
        assert client.get(f"https://{ENVD}/health").status_code == 401
        other = client.get(f"https://8000-demo--d1.{DOMAIN}/", headers=token)
        assert (other.status_code, "lets no port" in other.json()["message"]) == (501, True)
        assert client.get(f"https://49983-nobody.{DOMAIN}/health", headers=token).status_code == 502
        # One that says it by the header as well is taken by that.
        named_otherwise = {**token, "E2b-Sandbox-Id": "demo--nobody"}
        assert client.get(f"https://{ENVD}/health", headers=named_otherwise).status_code == 502


def test_javascript_client_reaches_it_by_the_domain_and_its_port_with_its_authority(
    named: Named, e2b_packages: Path
) -> None:
    named.door.domain = f"{DOMAIN}:{named.door.port}"
    named.door.restart()

    def used(**options: Any) -> str:
        environment = named.environment(domain=named.door.domain, **options)
        said = {"id": "demo--d1"}
        return npm.run(e2b_packages, "domain.mjs", said, {**environment, "HTTPS_PROXY": ""})

    assert used() == "worked"
    refused = used(trusts=False)
    assert "worked" not in refused and "UNABLE_TO_VERIFY_LEAF_SIGNATURE" in refused
