"""A network is in force when every node has reloaded it: the task that began the reloads ends OK either way."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deskyard.errors import SiteError
from deskyard.plan.proxmox.view import pool_of
from deskyard.site.proxmox import sdn
from deskyard.site.proxmox.doctor.doctor import examine
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import SITE
from tests.proxmox.site_on_peer import Rack
from tests.proxmox.test_faults import ends_badly, ends_well
from tests.proxmox.test_peer import zone
from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine

pytestmark = pytest.mark.sampled

FAILED = "command 'ifreload -a' failed: exit code 1"


def network(root: Client, name: str = "dya", tag: int = 100_000) -> None:
    """A VNet, configured."""
    root.ask("POST", "/cluster/sdn/vnets", vnet=name, zone="vxlan", tag=tag)


# The peer: what was observed on Proxmox VE 8.4.21.


def test_a_failed_reload_is_said_by_its_node_alone(peer: Peer, root: Client) -> None:
    zone(root)
    network(root)
    peer.fake.faults.failing_reloads["pve1"] = 1
    assert root.finish("PUT", "/cluster/sdn") == "OK"
    assert "state" not in root.ask("GET", "/cluster/sdn/vnets/dya", pending=1)
    assert root.ask("GET", "/nodes/pve1/sdn/zones") == [{"zone": "vxlan", "status": "available"}]
    reloads = {
        node: [task["status"] for task in root.ask("GET", f"/nodes/{node}/tasks", typefilter="srvreload")]
        for node in ("pve1", "pve2")
    }
    assert reloads == {"pve1": [FAILED], "pve2": ["OK"]}
    machine(root, net0="virtio,bridge=dya")
    assert root.finish("POST", f"{NODE}/100/status/start") == "bridge 'dya' does not exist"


def test_a_node_that_was_away_lacks_the_configuration_and_says_so(peer: Peer, root: Client) -> None:
    zone(root)
    network(root)
    peer.fake.set_node_offline("pve2")
    assert root.finish("PUT", "/cluster/sdn") == "OK"
    peer.fake.set_node_offline("pve2", offline=False)
    content = {
        node: [row["status"] for row in root.ask("GET", f"/nodes/{node}/sdn/zones/vxlan/content")]
        for node in ("pve1", "pve2")
    }
    assert content == {"pve1": ["available"], "pve2": ["pending"]}


# Deskyard on it.


def test_applying_fails_with_the_node_whose_reload_failed(peer: Peer, root: Client, tmp_path: Path) -> None:
    zone(root)
    client = Rack(peer, tmp_path).client()
    network(root)
    peer.fake.faults.failing_reloads["pve2"] = 1
    with pytest.raises(SiteError, match=r"(?s)was not reloaded.*pve2: .*ifreload -a' failed") as caught:
        sdn.apply(client)
    assert caught.value.value == "pve2"
    assert not sdn.in_force(client, "vxlan", "dya")
    sdn.apply(client)
    assert sdn.in_force(client, "vxlan", "dya")


def test_reload_beside_anothers_is_refused_by_the_node_and_does_not_wait(peer: Peer, root: Client) -> None:
    zone(root)
    network(root)
    peer.fake.faults.slow_reloads = 1.0
    with ThreadPoolExecutor(2) as pool, peer.client() as other:
        assert [*pool.map(lambda client: client.finish("PUT", "/cluster/sdn"), (root, other))] == ["OK", "OK"]
    ends = [task["status"] for task in root.ask("GET", "/nodes/pve1/tasks", typefilter="srvreload")]
    assert sorted(ends) == ["OK", "command 'ifreload -a' failed: exit code 89"]


def test_all_who_apply_at_the_same_time_have_their_networks(peer: Peer, root: Client, tmp_path: Path) -> None:
    zone(root)
    clients = [Rack(peer, tmp_path).client() for _ in range(3)]
    peer.fake.faults.slow_reloads = 0.2

    def bring(number: int) -> bool:
        network(root, f"dy{number}", 100_000 + number)
        sdn.apply(clients[number])
        return sdn.in_force(clients[number], "vxlan", f"dy{number}")

    with ThreadPoolExecutor(len(clients)) as pool:
        assert [*pool.map(bring, range(len(clients)))] == [True] * len(clients)
    ends = [task["status"] for task in root.ask("GET", "/nodes/pve1/tasks", typefilter="srvreload")]
    assert len(ends) > len(clients), "none met another"


def test_a_node_that_reloads_for_somebody_for_ever_is_an_error(peer: Peer, root: Client, tmp_path: Path) -> None:
    zone(root)
    network(root)
    peer.fake.sdn_reloading.add("pve2")
    with pytest.raises(SiteError, match=r"(?s)was not reloaded.*pve2: .*exit code 89") as caught:
        sdn.apply(Rack(peer, tmp_path).client())
    assert caught.value.value == "pve2"


def test_a_node_that_missed_the_network_is_no_node_with_it(peer: Peer, root: Client, tmp_path: Path) -> None:
    zone(root)
    client = Rack(peer, tmp_path).client()
    network(root)
    peer.fake.set_node_offline("pve2")
    # Who is away runs nothing, and hinders nobody.
    sdn.apply(client)
    assert sdn.in_force(client, "vxlan", "dya")
    peer.fake.set_node_offline("pve2", offline=False)
    assert not sdn.in_force(client, "vxlan", "dya")
    sdn.apply(client)
    assert sdn.in_force(client, "vxlan", "dya")


def test_a_failed_reload_is_found_by_the_examination_of_the_site(peer: Peer, root: Client, tmp_path: Path) -> None:
    rack = Rack(peer, tmp_path)
    peer.fake.faults.failing_reloads["pve2"] = 1
    root.finish("PUT", "/cluster/sdn")
    found = {finding.name: finding for finding in examine(rack.site, rack.client())}["network_reload"]
    assert (found.state, "pve2" in found.what, "pve1" in found.what) == ("error", True, False)
    root.finish("PUT", "/cluster/sdn")
    assert {finding.name: finding.state for finding in examine(rack.site, rack.client())}["network_reload"] == "ok"


def test_up_names_the_node_that_did_not_reload_and_mends_it_the_next_time(bench: Bench) -> None:
    bench.empty()
    bench.rack.declare(NAME, *DESKTOPS)
    bench.rack.peer.fake.faults.failing_reloads["pve1"] = 1
    ends_badly(bench, "pve1", "was not reloaded", FAILED)
    assert pool_of(SITE, NAME) in {vnet["alias"] for vnet in bench.rack.peer.fake.sdn_running["vnets"].values()}
    ends_well(bench, *DESKTOPS)


def test_a_node_that_lost_the_network_later_is_drift_and_is_mended(bench: Bench) -> None:
    bench.up()
    root, fake = bench.rack.root, bench.rack.peer.fake
    fake.faults.failing_reloads["pve2"] = 1
    root.finish("PUT", "/cluster/sdn")
    assert [change["name"] for change in bench.run("status", drift=True)["drift"]] == [f"{NAME}-applied"]
    ends_well(bench, *DESKTOPS)
