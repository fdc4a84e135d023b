"""Two workspaces on one machine, seen from inside their guests: what must work works, all else does not."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

import pytest

from tests.support import probe
from tests.support.neighbour import LISTENING, Neighbour
from tests.support.site_host import SiteHost
from tests.support.workspaces import Running

pytestmark = pytest.mark.vm
PORTS = (22, 53, 80, 443, 6080, 7681)
VERIFY_SECONDS = 900
DENIED = "ip daddr @denied jump refuse"


@pytest.fixture(scope="module")
def site_host() -> Iterator[SiteHost]:
    """The host of the virtual machines, with a service on every address and one address of the wide internet."""
    with SiteHost() as host:
        yield host


def verified(ours: Running, other: Running) -> tuple[int, dict[str, Any]]:
    """What `workspace.verify` says of two workspaces: exit code and report."""
    done = ours.inv(
        "workspace.verify", ours.name, "--against", other.name, "--json", timeout=VERIFY_SECONDS, check=False
    )
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"no report:\n{done.stdout}\n{done.stderr}") from None
    assert "probes" in report, report
    return done.returncode, report


def failures(report: dict[str, Any]) -> list[str]:
    """What is wrong, for a person: rules first, then probes with the rules that should have stopped them."""
    wrong = [rule for rules in report["rules"].values() for rule in rules["wrong"]]
    probes = [probe for probe in report["probes"] if not probe["ok"]]
    return [*wrong, *(f"{probe['id']}: {probe['outcome']} {probe['seen_by']} <- {probe['guards']}" for probe in probes)]


@contextmanager
def without_rule(running: Running, rule: str) -> Iterator[None]:
    """One rule of the live gateway less; afterwards all are loaded anew."""
    listed = running.ssh("gateway", "sudo nft -a list chain inet deskyard forward").stdout
    handles = [line.rpartition("# handle ")[2] for line in listed.splitlines() if line.strip().startswith(rule)]
    assert len(handles) == 1, listed
    running.ssh("gateway", f"sudo nft delete rule inet deskyard forward handle {handles[0]}")
    try:
        yield
    finally:
        running.ssh("gateway", "sudo nft -f /etc/deskyard/firewall.nft")


def test_two_live_workspaces_hold(ours: Running, other: Running, site_host: SiteHost) -> None:
    code, report = verified(ours, other)
    assert failures(report) == []
    assert (code, report["ok"]) == (0, True)
    expected = {"names", "watchers", "gateway", "host", "metadata", "lan", "egress", "spoofing", "workspaces", "door"}
    assert set(report["topics"]) >= expected
    assert any(f"port {site_host.port} of the host" in probe["id"] for probe in report["probes"])
    for name, rules in report["rules"].items():
        assert rules["live"] == rules["planned"], name
        assert len(report["images"][name]) == 2


def test_a_rule_removed_from_a_live_gateway_is_named(ours: Running, other: Running, site_host: SiteHost) -> None:
    with without_rule(ours, DENIED):
        code, report = verified(ours, other)
    assert (code, report["ok"]) == (1, False)
    assert f"gateway: chain forward: {DENIED}: is missing" in report["rules"][ours.name]["wrong"]
    reached = [probe for probe in report["probes"] if not probe["ok"]]
    assert {probe["topic"] for probe in reached} >= {"lan", "metadata"}, failures(report)
    assert all(any(DENIED in guard for guard in probe["guards"]) for probe in reached), failures(report)
    assert report["rules"][other.name]["wrong"] == []


def neighbour(running: Running, isolated: bool) -> Neighbour:
    network = ip_network(running.plan.network.cidr)
    return Neighbour(running.plan.network.bridge, str(network[9]), network.prefixlen, isolated)


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "by-the-filter-alone"])
def test_a_desktop_and_its_neighbour_do_not_reach_each_other(ours: Running, isolated: bool) -> None:
    desk = ours.plan.desktop("desk")
    with neighbour(ours, isolated=isolated) as peer:
        inward = peer.connect(desk.address, PORTS)
        outward = probe.connect(ours, "desk", [(peer.address, LISTENING)])
    assert set(inward.values()) <= {"timeout", "unreachable"}
    assert set(outward.values()) <= {"timeout", "unreachable"}


def test_egress_open_reaches_the_internet(ours: Running, site_host: SiteHost) -> None:
    answers = probe.connect(ours, "desk", [(site_host.internet_address, site_host.port)])
    assert answers == {f"{site_host.internet_address}:{site_host.port}": "open"}


def test_a_desktop_has_no_ipv6_way_out(ours: Running) -> None:
    assert ours.ssh("desk", "ip -6 route show default").stdout.strip() == ""


def test_the_host_has_no_address_on_the_workspace_network(ours: Running, site_host: SiteHost) -> None:
    prefix = ours.plan.gateway.workspace_address.rsplit(".", 1)[0] + "."
    on_network = [address for address in site_host.private_addresses() if address.startswith(prefix)]
    assert on_network == [ours.plan.uplink.host_address]


@pytest.mark.parametrize(
    "what",
    [
        "cat /etc/machine-id",
        "ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub",
        # Of DHCP's client identifier, what follows its type and the number of the interface.
        """networkctl --json=short status --all | grep -o '"ClientIdentifier":[^]]*' | cut -d, -f6-""",
    ],
    ids=["machine-id", "host key", "DUID"],
)
def test_two_desktops_of_one_image_are_two_machines(ours: Running, other: Running, what: str) -> None:
    assert ours.plan.desktop("desk").machine.image == other.plan.desktop("desk").machine.image
    first, second = (running.ssh("desk", what).stdout.strip() for running in (ours, other))
    assert first and second
    assert first != second
