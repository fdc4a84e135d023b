"""The table of connections is as long as the door and every desktop need, within the gateway's memory."""

import json
from ipaddress import IPv4Network
from typing import Any

import pytest

from deskyard.gateway.config import render, tracking
from deskyard.gateway.machine.layout import Layout
from deskyard.model.site import Site
from deskyard.model.tier import TIERS
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan.workspace import GATEWAY_MEMORY_MIB, plan_workspace
from deskyard.wire.gateway_settings import EGRESS, Settings
from deskyard.wire.gateway_settings import parse as parse_settings
from tests.unit.gateway.support import parsed

ENTRY_BYTES = 384  # of the kernel's table: 256, and what NAT and time limits add
SOCKET_BYTES = 28_000  # of HAProxy: see its configuration
SPARE_MIB = 128  # for the kernel and the other programs


def of_many(egress: Any, tier: str) -> Settings:
    """The settings of the largest workspace."""
    desktops = tuple(Desktop(name=f"d{number}", tier=tier) for number in range(100))
    workspace = Workspace(name="many", network=IPv4Network("10.80.1.0/24"), egress=egress, desktops=desktops)
    return parse_settings(json.dumps(plan_workspace(workspace, Site(), "kvm").as_dict()["gateway"]["settings"]))


def kernel_value(text: str, key: str) -> int:
    """What a file for the kernel says of a key."""
    return next(int(line.split()[-1]) for line in text.splitlines() if line.split(" =")[0].lstrip("-").endswith(key))


@pytest.mark.parametrize("tier", sorted(TIERS))
@pytest.mark.parametrize("egress", EGRESS)
def test_74_table_holds_every_socket_of_the_door_and_every_part_of_a_desktop(egress: Any, tier: str) -> None:
    settings, layout = of_many(egress, tier), Layout()
    door = render.haproxy(settings, layout, ["k1"], layout.tls_bundle)
    (sockets,) = {int(line.split()[1]) for line in door.splitlines() if line.strip().startswith("maxconn")}
    text = render.forwarding(settings, layout.door_sockets)
    table = kernel_value(text, "nf_conntrack_max")
    closed = kernel_value(text, "nf_conntrack_tcp_timeout_time_wait")
    # Of a desktop: what is open (the router of a locked workspace opens as much again), and what was made meanwhile.
    rate = TIERS[tier].connections_per_second
    of_one = 2 * (tracking.flows(settings) + tracking.NAME_LINES) + 2 * 2 * rate * closed
    assert table >= 2 * sockets + len(settings.desktops) * of_one
    used_mib = (sockets * SOCKET_BYTES + table * ENTRY_BYTES) / 2**20
    assert used_mib < GATEWAY_MEMORY_MIB - SPARE_MIB


def test_74_table_grows_with_the_sockets_of_the_door() -> None:
    more = [kernel_value(render.forwarding(parsed(), sockets), "nf_conntrack_max") for sockets in (12_000, 13_000)]
    assert more[1] - more[0] == 2_000
