"""Every generated file, whole, against golden files (`DESKYARD_GOLDEN=write` renews them)."""

import os
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from deskyard.gateway.config import render
from deskyard.gateway.config.servers import servers
from deskyard.gateway.machine.layout import Layout
from deskyard.model.site import Site
from tests.unit.gateway.support import parsed

GOLDEN = Path(__file__).parent / "golden"
ALLOW = ("docs.example.org", "*.example.net", "git.example.org:22", "git.example.org", "pages.example.org:80")
SESSIONS = {
    ("d1", "desktop"): ["AAAAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBBBB"],
    ("d1", "recordings"): ["AAAAAAAAAAAAAAAAAAAAAAAA"],
}


def rendered() -> dict[str, str]:
    layout = Layout()
    locked = parsed("locked", ALLOW, Site(egress_exceptions=(IPv4Network("10.99.0.0/16"),)))
    return {
        "firewall-locked.nft": render.firewall(locked),
        "dnsmasq-locked.conf": render.dnsmasq(locked),
        "forward-locked.conf": render.forwarding(locked),
        "egress.cfg": render.egress(locked, layout),
        "ssh.conf": render.ssh(locked),
        "egress-routes": render.egress_routes(locked),
        "firewall-open.nft": render.firewall(parsed("open")),
        "firewall-none.nft": render.firewall(parsed("none")),
        "dnsmasq-open.conf": render.dnsmasq(parsed("open")),
        "dnsmasq-none.conf": render.dnsmasq(parsed("none")),
        "forward-open.conf": render.forwarding(parsed("open")),
        "forward-none.conf": render.forwarding(parsed("none")),
        "haproxy.cfg": render.haproxy(parsed(), layout, ["k1", "k2"], layout.tls_bundle),
        "backends.cfg": render.backends(parsed(), Layout(), SESSIONS),
    }


@pytest.mark.parametrize("name", sorted(rendered()))
def test_generated_file_is_the_golden_one(name: str) -> None:
    text = rendered()[name]
    if os.environ.get("DESKYARD_GOLDEN") == "write":
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(rendered())


def test_every_server_of_a_session_weighs_nothing() -> None:
    servers = [
        line
        for line in render.backends(parsed(), Layout(), SESSIONS).splitlines()
        if line.strip().startswith("server ")
    ]
    assert len(servers) == 3
    assert all(" weight 0" in line for line in servers)


def test_recordings_are_reached_only_where_a_desktop_has_a_screen_and_the_service() -> None:
    settings = parsed()
    first, *others = settings.desktops
    for routes, there in [({}, True), ({"computer": None}, False), ({"desktop": None}, False)]:
        kept = {name: port for name, port in first.routes.items() if name not in routes}
        changed = replace(settings, desktops=(replace(first, routes=kept), *others))
        text = render.backends(changed, Layout(), {})
        assert (f"backend be_{first.name}_recordings\n" in text) is there
        assert ((first.name, "recordings") in servers(changed, Layout())) is there


def test_nothing_is_forwarded_or_translated_without_egress() -> None:
    rules = render.firewall(parsed("none"))
    forward = rules.partition("chain forward")[2].partition("chain refuse")[0]
    assert "accept" not in forward
    assert "nat" not in rules
    assert "dport 53" not in rules.partition("chain output")[2]
