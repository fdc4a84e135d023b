"""What a cluster's list does not show of young machines yet, and that nobody falls for it."""

from pathlib import Path

import pytest

from deskyard.declaration import declaration
from deskyard.plan.proxmox.view import pool_of
from deskyard.site.files import read_site
from deskyard.site.proxmox import listing, templates
from deskyard.workspace import status
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import SITE
from tests.proxmox.site_on_peer import Rack
from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine

pytestmark = pytest.mark.sampled

SOON = 10


def row(root: Client, vmid: int = 100) -> dict[str, object]:
    """What the list shows of a machine."""
    found: dict[str, object] = next(
        entry for entry in root.ask("GET", "/cluster/resources", type="vm") if entry["vmid"] == vmid
    )
    return found


def test_a_young_machine_is_listed_without_name_sizes_and_state(peer: Peer, root: Client) -> None:
    root.ask("POST", "/pools", poolid="desk")
    machine(root, pool="desk", tags="mine")
    first = row(root)
    assert first == {
        "id": "qemu/100",
        "type": "qemu",
        "node": "pve1",
        "vmid": 100,
        "tags": "mine",
        "pool": "desk",
        "status": "unknown",
    }
    for _ in range(peer.fake.faults.late_listings):
        later = row(root)
    assert (later["name"], later["status"], later["maxcpu"]) == ("vm100", "stopped", 1)
    assert root.finish("DELETE", f"{NODE}/100") == "OK"
    machine(root, name="another")
    assert row(root)["name"] == "vm100"


def test_a_machine_that_is_being_cloned_is_an_id_on_a_node(peer: Peer, root: Client) -> None:
    machine(root)
    peer.fake.snapshot_lock(100, "clone")
    assert row(root).keys() == {"id", "type", "node", "vmid", "lock", "status"}


def test_a_new_template_is_listed_as_a_machine_for_a_while(peer: Peer, root: Client) -> None:
    machine(root)
    for _ in range(peer.fake.faults.late_listings + 1):
        row(root)
    root.finish("POST", f"{NODE}/100/template")
    assert row(root)["template"] == 0
    for _ in range(peer.fake.faults.late_listings):
        shown = row(root)
    assert shown["template"] == 1


def test_a_young_template_is_found_published_at_once(peer: Peer, root: Client, tmp_path: Path) -> None:
    peer.fake.faults.late_listings = SOON
    client = Rack(peer, tmp_path).client()
    machine(root, vmid=20_000, tags=templates.tags("desktop", "feed", made=1))
    assert templates.published(root.ask("GET", "/cluster/resources"), client.cluster) == []
    assert templates.published(listing.resources(client), client.cluster) == []
    root.finish("POST", f"{NODE}/20000/template")
    found = templates.published(listing.resources(client), client.cluster)
    assert [(template.vmid, template.digest) for template in found] == [(20_000, "feed")]


def test_a_young_machine_is_seen_as_its_node_knows_it(peer: Peer, root: Client, tmp_path: Path) -> None:
    peer.fake.faults.late_listings = SOON
    client = Rack(peer, tmp_path).client()
    root.ask("POST", "/pools", poolid="desk")
    machine(root, pool="desk", tags="mine", memory="2048", cores=2)
    (seen,) = (row for row in listing.resources(client) if row["type"] == "qemu")
    shown = {key: seen[key] for key in ("name", "pool", "tags", "maxcpu", "maxmem", "status", "template")}
    assert shown == {
        "name": "vm100",
        "pool": "desk",
        "tags": "mine",
        "maxcpu": 2,
        "maxmem": 2 << 30,
        "status": "stopped",
        "template": 0,
    }


def test_young_machines_count_with_their_sizes_and_are_known_by_their_tags(bench: Bench) -> None:
    bench.up()
    fake = bench.rack.peer.fake
    for vm in fake.vms:
        vm.listings = {}
    fake.faults.late_listings = SOON
    try:
        shown = status.status(NAME)
        assert {desktop["name"]: desktop["state"] for desktop in shown["desktops"]} == dict.fromkeys(
            DESKTOPS, "running"
        )
        view = declaration.observe(read_site(SITE))
        mine = {
            machine.name: (machine.pool, machine.vcpus, machine.memory_mib) for machine in view.machines_of(SITE, NAME)
        }
        plans = bench.rack.plan(NAME).plan.machines()
        pool = pool_of(SITE, NAME)
        assert mine == {f"{name}.{NAME}": (pool, plan.vcpus, plan.memory_mib) for name, plan in plans.items()}
        bench.settled(*DESKTOPS)
    finally:
        fake.faults.late_listings = 2
