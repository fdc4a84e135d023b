"""Two workspaces on one machine, seen from inside their guests: what must work works, all else does not."""

from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from tests.support import probe
from tests.support.neighbour import LISTENING, Neighbour
from tests.support.site_host import SiteHost
from tests.support.workspaces import Running

pytestmark = pytest.mark.vm
PORTS = (22, 53, 80, 443, 6080, 7681)


@pytest.fixture(scope="module")
def site_host() -> Iterator[SiteHost]:
    """The host of the virtual machines, with a service on every address and one address of the wide internet."""
    with SiteHost() as host:
        yield host


def addresses_of(running: Running) -> list[str]:
    """Every address that belongs to a workspace: desktops, both sides of its gateway, the host's end of its uplink."""
    plan = running.plan
    assert plan.uplink.host_address
    desktops = [desktop.address for desktop in plan.desktops]
    return [*desktops, plan.gateway.workspace_address, plan.gateway.uplink_address, plan.uplink.host_address]


@pytest.mark.parametrize(("ours", "theirs"), [("e2e-a", "e2e-b"), ("e2e-b", "e2e-a")])
def test_a_desktop_cannot_reach_anything_of_the_other_workspace(
    workspaces: dict[str, Running], site_host: SiteHost, ours: str, theirs: str
) -> None:
    targets = [(address, port) for address in addresses_of(workspaces[theirs]) for port in (*PORTS, site_host.port)]
    answers = probe.connect(workspaces[ours], "desk", targets)
    assert {target: answer for target, answer in answers.items() if answer in ("open", "refused")} == {}


def neighbour(running: Running, isolated: bool) -> Neighbour:
    network = ip_network(running.plan.network.cidr)
    return Neighbour(running.plan.network.bridge, str(network[9]), network.prefixlen, isolated)


def test_a_desktop_and_its_neighbour_do_not_reach_each_other(one: Running) -> None:
    desk = one.plan.desktop("desk")
    with neighbour(one, isolated=True) as peer:
        inward = peer.connect(desk.address, PORTS)
        outward = probe.connect(one, "desk", [(peer.address, LISTENING)])
    assert set(inward.values()) <= {"timeout", "unreachable"}
    assert set(outward.values()) <= {"timeout", "unreachable"}


def test_port_isolation_is_what_keeps_neighbours_apart(one: Running) -> None:
    desk = one.plan.desktop("desk")
    with neighbour(one, isolated=False) as peer:
        assert peer.connect(desk.address, (desk.routes["desktop"],)) == {desk.routes["desktop"]: "open"}


def test_a_desktop_reaches_only_name_service_on_its_gateway(one: Running) -> None:
    plan = one.plan
    targets = [(plan.gateway.workspace_address, port) for port in PORTS]
    targets += [(plan.gateway.uplink_address, port) for port in PORTS]
    answers = probe.connect(one, "desk", targets)
    reached = {target for target, answer in answers.items() if answer in ("open", "refused")}
    assert reached == {f"{plan.gateway.workspace_address}:53"}


def test_a_desktop_cannot_reach_services_of_the_host(one: Running, site_host: SiteHost) -> None:
    control = probe.connect(one, "gateway", [(one.plan.uplink.host_address or "", site_host.port)])
    targets = [(address, site_host.port) for address in site_host.private_addresses()]
    targets.append(("169.254.169.254", 80))
    answers = probe.connect(one, "desk", targets)
    assert len(targets) >= 3
    assert {target: answer for target, answer in answers.items() if answer in ("open", "refused")} == {}, control


def test_egress_open_reaches_the_internet(one: Running, site_host: SiteHost) -> None:
    answers = probe.connect(one, "desk", [(site_host.internet_address, site_host.port)])
    assert answers == {f"{site_host.internet_address}:{site_host.port}": "open"}


def test_a_desktop_that_takes_another_address_gets_no_answer(one: Running) -> None:
    gateway = one.plan.gateway.workspace_address
    forged = gateway.rsplit(".", 1)[0] + ".9"
    nic = one.ssh("desk", "ip -o -4 route get " + gateway).stdout.split(" dev ")[1].split()[0]
    one.ssh("desk", f"sudo ip address add {forged}/32 dev {nic}")
    try:
        honest = probe.connect(one, "desk", [(gateway, 53)])
        lying = probe.connect(one, "desk", [(gateway, 53)], source=forged)
    finally:
        one.ssh("desk", f"sudo ip address del {forged}/32 dev {nic}")
    assert list(honest.values()) == ["open"]
    assert set(lying.values()) <= {"timeout", "unreachable"}


def test_a_desktop_has_no_ipv6_way_out(one: Running) -> None:
    routes = one.ssh("desk", "ip -6 route show default").stdout
    neighbours = one.ssh("desk", "ping -6 -c 2 -W 2 ff02::1%workspace || true").stdout
    assert routes.strip() == ""
    assert "bytes from fe80" not in neighbours.replace(_own_link_local(one), "")


def _own_link_local(running: Running) -> str:
    shown = running.ssh("desk", "ip -6 -o address show dev workspace scope link").stdout.split()
    return f"bytes from {shown[3].split('/')[0]}" if len(shown) > 3 else "-"


def test_the_host_has_no_address_on_the_workspace_network(one: Running, site_host: SiteHost) -> None:
    prefix = one.plan.gateway.workspace_address.rsplit(".", 1)[0] + "."
    on_network = [address for address in site_host.private_addresses() if address.startswith(prefix)]
    assert on_network == [one.plan.uplink.host_address]
