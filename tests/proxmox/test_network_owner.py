"""Whose a network is follows from the machines on it, and no plan takes it away below them."""

from collections.abc import Callable
from typing import Any

import pytest

from deskyard.engine import leftovers
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.proxmox.view import pool_of
from deskyard.site.files import read_site
from deskyard.workspace import workspace
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import SITE, changed
from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine, refused

pytestmark = pytest.mark.sampled


def vnet_of(bench: Bench) -> str:
    """The VNet of the workspace."""
    planned = bench.rack.plan(NAME).on_cluster
    assert planned is not None
    return planned.vnet.name


def alias(bench: Bench, name: str, text: str) -> None:
    """An administrator writes another alias and applies it."""
    bench.rack.root.ask("PUT", f"/cluster/sdn/vnets/{name}", alias=text)
    assert bench.rack.root.finish("PUT", "/cluster/sdn") == "OK"


# The peer.


def test_a_nic_is_moved_only_by_who_may_use_its_old_bridge_too(peer: Peer, root: Client) -> None:
    machine(root, net0="virtio=BC:24:11:00:00:01,bridge=vmbr0")
    token = peer.fake.token()
    root.ask("POST", "/access/roles", roleid="Nic", privs="VM.Config.Network,VM.Audit")
    root.ask("POST", "/access/roles", roleid="Bridge", privs="SDN.Use")
    grant: Callable[[str, str], Any] = lambda path, role: root.ask(  # noqa: E731
        "PUT", "/access/acl", path=path, roles=role, users="deskyard@pve"
    )
    grant("/vms/100", "Nic")
    grant("/sdn/zones/localnetwork/vmbr1", "Bridge")
    with peer.client(token) as client:
        moved = {"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr1"}
        refused(client.put(f"{NODE}/100/config", data=moved), 403, "/sdn/zones/localnetwork/vmbr0, SDN.Use")
        refused(client.put(f"{NODE}/100/config", data={"delete": "net0"}), 403, "localnetwork/vmbr0, SDN.Use")
        grant("/sdn/zones/localnetwork/vmbr0", "Bridge")
        client.ask("PUT", f"{NODE}/100/config", **moved)


def test_the_order_of_starts_is_the_administrators(peer: Peer, root: Client) -> None:
    machine(root, startup="order=1")
    token = peer.fake.token()
    root.ask("POST", "/access/roles", roleid="Options", privs="VM.Config.Options,VM.Audit")
    root.ask("PUT", "/access/acl", path="/vms/100", roles="Options", users="deskyard@pve")
    with peer.client(token) as client:
        for change in ({"startup": "order=2"}, {"delete": "startup"}):
            refused(client.put(f"{NODE}/100/config", data=change), 403, "(/, Sys.Modify)")
        client.ask("PUT", f"{NODE}/100/config", onboot=1)


def test_a_network_below_machines_is_removed_without_a_word(bench: Bench) -> None:
    bench.up()
    name = vnet_of(bench)
    bench.rack.root.ask("DELETE", f"/cluster/sdn/vnets/{name}")
    assert bench.rack.root.finish("PUT", "/cluster/sdn") == "OK"
    assert name not in bench.rack.peer.fake.bridges("pve1")


# Deskyard on it.


def test_machines_whose_start_order_somebody_set_are_left_with_it(bench: Bench) -> None:
    bench.up()
    for name in ("gateway", "dev1"):
        bench.rack.root.ask("PUT", f"{bench.rack.node_path(NAME, name)}/config", startup="order=3")
    assert bench.run("preview")["steps"] == []
    bench.rack.declare(NAME, "dev1:pro", "dev2")
    bench.run("up")
    bench.settled(*DESKTOPS)
    assert bench.rack.machines(NAME)["dev1"].config["startup"] == "order=3"


@pytest.mark.parametrize("text", ["the lab of Ann", f"deskyard.{SITE}.another"])
def test_a_network_stays_its_workspaces_whatever_its_alias_says(bench: Bench, text: str) -> None:
    bench.up()
    name = vnet_of(bench)
    alias(bench, name, text)
    assert vnet_of(bench) == name
    assert changed(WorkspaceStack(NAME).preview()) == []
    bench.rack.declare(NAME, *DESKTOPS, "dev3")
    bench.run("up")
    on = {vm.config["net1" if machine == "gateway" else "net0"] for machine, vm in bench.rack.machines(NAME).items()}
    assert {next(part for part in nic.split(",") if part.startswith("bridge=")) for nic in on} == {f"bridge={name}"}
    assert bench.rack.peer.fake.sdn["vnets"][name]["alias"] == text
    bench.run("destroy")
    bench.gone()


def test_a_network_that_carries_the_name_of_another_workspace_is_not_taken_by_it(bench: Bench) -> None:
    bench.up()
    name, seen = vnet_of(bench), bench.rack.snapshot(NAME)
    alias(bench, name, pool_of(SITE, "two"))
    stack = bench.rack.declare("two", "a")
    assert leftovers.clear(read_site(SITE), "two", leftovers.state_ids([])) == []
    planned = bench.rack.plan("two").on_cluster
    assert planned is not None
    assert planned.vnet.name != name
    workspace.up("two")
    workspace.destroy("two")
    assert name in bench.rack.peer.fake.bridges("pve1") & bench.rack.peer.fake.bridges("pve2")
    assert bench.rack.snapshot(NAME) == seen
    assert stack.name == "two"


def test_a_zone_that_is_renamed_below_machines_is_refused(bench: Bench) -> None:
    bench.up()
    before = bench.rack.peer.fake.left()
    bench.rack.site(zone={"kind": "vxlan", "name": "other", "peers": ["198.51.100.1", "198.51.100.2"]})
    with pytest.raises(ConfigError, match=r"has its machines on dy\w+ in zone deskyard.*cut them off"):
        workspace.preview(NAME)
    assert bench.rack.peer.fake.left() == before


def test_tags_that_no_longer_hold_the_networks_change_nothing_of_it(bench: Bench) -> None:
    bench.up()
    peers = ["198.51.100.1", "198.51.100.2"]
    bench.rack.site(zone={"kind": "vxlan", "peers": peers, "first_tag": 7, "last_tag": 9})
    assert changed(WorkspaceStack(NAME).preview()) == []


def test_a_plan_that_would_replace_the_network_below_machines_is_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the Plan, which keeps it: as if the machines could not be asked where they are."""
    bench.up()
    name, seen = vnet_of(bench), bench.rack.snapshot(NAME)
    alias(bench, name, "of somebody")
    monkeypatch.setattr("deskyard.site.proxmox.wiring.bridges", lambda _: ())
    with pytest.raises(ConfigError, match="would replace the network of lab below its machines"):
        workspace.up(NAME)
    assert (bench.rack.snapshot(NAME), vnet_of(bench) == name) == (seen, False)
    assert name in bench.rack.peer.fake.bridges("pve1")


def test_a_nic_whose_old_bridge_the_token_may_not_use_is_named_before_anything_is_touched(bench: Bench) -> None:
    bench.up()
    seen = bench.rack.snapshot(NAME)
    bench.rack.root.ask("PUT", f"{bench.rack.node_path(NAME, 'dev1')}/config", net0=_elsewhere(bench))
    moved = bench.rack.snapshot(NAME)
    with pytest.raises(SiteError, match=r"dev1\.lab is on vmbr1") as caught:
        workspace.up(NAME)
    assert "pveum acl modify /sdn/zones/localnetwork/vmbr1 --users deskyard@pve" in caught.value.remedy
    assert bench.rack.snapshot(NAME) == moved
    path = "/sdn/zones/localnetwork/vmbr1"
    bench.rack.root.ask("PUT", "/access/acl", path=path, roles="DeskyardUplink", users="deskyard@pve")
    bench.run("up")
    assert bench.rack.snapshot(NAME) == seen


def _elsewhere(bench: Bench) -> str:
    """The NIC of a desktop on another bridge."""
    nic: str = bench.rack.machines(NAME)["dev1"].config["net0"]
    return nic.replace(f"bridge={vnet_of(bench)}", "bridge=vmbr1")
