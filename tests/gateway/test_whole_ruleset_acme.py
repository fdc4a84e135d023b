"""The whole ruleset of a gateway that orders its certificate, and of one whose list names no port, against the Plan."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.config import render
from deskyard.wire.gateway_settings import EGRESS, Acme, Settings
from tests.gateway.nft_walk import Packet
from tests.gateway.test_whole_ruleset import ALLOW, ROUTER, differences, loaded, may, packets
from tests.unit.gateway.support import parsed

CERTBOT = "daemon"  # another account that every machine has
SERVER = Acme("https://acme.test:8443/dir", "admin@desk.test", "")


def may_with_server(hook: str, packet: Packet, settings: Settings) -> bool:
    """What the Plan says of a packet: certbot reaches its server, the server reaches the door, names are asked for."""
    assert settings.acme is not None
    if packet.user == CERTBOT:
        ordering = (packet.oif, packet.proto, packet.dport, packet.state) == (
            "uplink",
            "tcp",
            settings.acme.port,
            "new",
        )
        return ordering or packet.oif == "lo" or packet.state in ("established", "related")
    of_the_router = packet.user == ROUTER and settings.egress == "locked"
    if packet.family == "ipv4" and not of_the_router:
        at_the_door = (packet.iif, packet.daddr, packet.proto, packet.dport) == (
            "uplink",
            settings.uplink_address,
            "tcp",
            80,
        )
        if hook == "input" and at_the_door and packet.state == "new":
            return True
        asks = packet.proto in ("tcp", "udp") and (packet.daddr, packet.dport) == (settings.host_address, 53)
        if hook == "output" and packet.oif == "uplink" and asks:
            return True
    return may(hook, packet, settings)


def of_certbot(settings: Settings) -> Iterator[tuple[str, Packet]]:
    """Everything that leaves, as if certbot sent it."""
    for hook, packet in packets(settings):
        if hook == "output" and not packet.user:
            yield hook, replace(packet, user=CERTBOT)
    assert settings.acme is not None
    for oif, state in itertools.product(("lo", "uplink", "workspace"), ("new", "established", "invalid", "untracked")):
        made = Packet("", oif, "", settings.uplink_address, "192.0.2.7", dport=settings.acme.port, state=state)
        yield "output", replace(made, user=CERTBOT)


@pytest.mark.parametrize("egress", EGRESS)
def test_a_server_of_certificates_opens_for_itself_and_for_nothing_else(egress: Any, tmp_path: Path) -> None:
    settings = replace(parsed(egress, ALLOW if egress == "locked" else ()), acme=SERVER)
    rules = loaded(render.firewall(settings, ROUTER, CERTBOT), settings, tmp_path)
    found = (
        f"{hook}: {'passes' if rules.passes(hook, packet) else 'is refused'}: {packet}"
        for hook, packet in itertools.chain(packets(settings), of_certbot(settings))
        if rules.passes(hook, packet) != may_with_server(hook, packet, settings)
    )
    assert list(itertools.islice(found, 10)) == []


def test_a_list_without_ports_opens_the_ports_of_the_web_alone(tmp_path: Path) -> None:
    settings = parsed("locked", ("allowed.test", "*.suffix.test"))
    found = differences(loaded(render.firewall(settings, ROUTER), settings, tmp_path), settings)
    assert list(itertools.islice(found, 10)) == []
