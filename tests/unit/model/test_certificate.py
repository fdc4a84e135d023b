"""A site's certificate comes from one source, and an ACME server must be able to reach what it vouches for."""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.site import Site
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan.workspace import plan_workspace
from deskyard.wire.gateway_settings import Acme

DIRECTORY = "https://acme-v02.api.letsencrypt.org/directory"
ACME: dict[str, Any] = {"directory": DIRECTORY, "email": "admin@desk.example.org"}


def site(certificate: dict[str, Any], **values: Any) -> Site:
    """A site that an ACME server can reach, if `values` do not say otherwise."""
    given = {"domain": "desk.example.org", "listen": "192.0.2.10", **values}
    return Site.check({"name": "local", **given, "certificate": certificate}, "local.yaml")


def test_either_source_is_good() -> None:
    files = site({"chain": "chain.pem", "key": "key.pem"}).certificate
    server = site({"acme": {**ACME, "ca": "ca.pem"}}).certificate
    assert files is not None
    assert (files.chain, files.acme) == (Path("chain.pem"), None)
    assert server is not None
    assert server.acme is not None
    assert server.acme.ca == Path("ca.pem")


@pytest.mark.parametrize(
    ("certificate", "values", "why"),
    [
        ({}, {}, "give chain and key, or acme"),
        ({"chain": "chain.pem"}, {}, "give chain and key, or acme"),
        ({"key": "key.pem"}, {}, "give chain and key, or acme"),
        ({"acme": ACME, "chain": "chain.pem"}, {}, "keep acme, or chain and key"),
        ({"acme": {"email": ACME["email"]}}, {}, "directory"),
        ({"acme": {"directory": DIRECTORY}}, {}, "email"),
        ({"acme": {**ACME, "directory": "http://acme.test/dir"}}, {}, "directory"),
        ({"acme": {**ACME, "directory": f"{DIRECTORY}\nx"}}, {}, "directory"),
        ({"acme": {**ACME, "directory": "https://user:word@acme.test/dir"}}, {}, "directory"),
        ({"acme": {**ACME, "email": "nobody"}}, {}, "email"),
        ({"acme": {**ACME, "key": "x"}}, {}, "key"),
        ({"acme": ACME}, {"domain": "localhost"}, "give the site a domain"),
        ({"acme": ACME}, {"domain": "desk.localhost"}, "give the site a domain"),
        ({"acme": ACME}, {"listen": "127.0.0.1"}, "listen on an address that it reaches"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(certificate: Any, values: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        site(certificate, **values)
    assert why in str(caught.value)


def test_plan_hands_the_server_to_the_gateway() -> None:
    workspace = Workspace(name="demo", network=IPv4Network("10.80.1.0/24"), desktops=(Desktop(name="d1"),))
    settings = plan_workspace(workspace, site({"acme": {**ACME, "ca": "ca.pem"}}), "kvm").gateway.settings
    assert settings.acme == Acme(DIRECTORY, ACME["email"], "ca.pem")
    assert plan_workspace(workspace, Site(), "kvm").gateway.settings.acme is None
