"""Many clients at once: nobody gets what another has, and the cluster refuses whoever comes second."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from deskyard.declaration import declaration
from deskyard.errors import ConfigError
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.power import NoRoom
from deskyard.plan.proxmox.workspace import plan_on_cluster
from deskyard.site.files import read_site
from deskyard.site.proxmox.client import ApiError, Client, connect
from deskyard.site.proxmox.task import wait_task
from deskyard.workspace import workspace
from tests.proxmox.rack import SITE, Rack, changed
from tests.support.pve import GIB, Capacity

pytestmark = pytest.mark.sampled

CLIENTS, TRIES = 32, 30


def test_of_thirty_two_clients_that_create_at_once_each_gets_its_own(rack: Rack) -> None:
    # As narrow as can be, so that they do collide.
    rack.site(
        vm_ids={"first": 20_000, "last": 20_140},
        zone={"kind": "vxlan", "peers": ["198.51.100.1"], "first_tag": 500, "last_tag": 540},
    )
    rack.peer.fake.storages["local-lvm"].update(total=10_000 * GIB, avail=10_000 * GIB)
    rack.peer.fake.capacities = dict.fromkeys(rack.peer.fake.nodes, Capacity(cpus=256, memory=1024 * GIB))
    names = [f"w{number}" for number in range(CLIENTS)]
    for name in names:
        rack.declare(name, "d")
    site = read_site(SITE)
    together = threading.Barrier(CLIENTS)
    refused: list[str] = []

    def create(name: str) -> None:
        client, declared = connect(site), declaration.read_workspace(name)
        client.post("pools", poolid=f"deskyard.{SITE}.{name}")
        together.wait(60)
        for _ in range(TRIES):
            try:
                _make(client, name, site, declared)
                return
            except ApiError as error:
                refused.append(error.reason)
        raise AssertionError(f"{name} never got what it needs: {set(refused)}")

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(create, names))
    fake = rack.peer.fake
    machines = [vm for name in names for vm in rack.machines(name).values()]
    assert len({vm.vmid for vm in machines}) == 2 * CLIENTS
    assert len({vnet["alias"] for vnet in fake.sdn["vnets"].values()}) == CLIENTS
    assert len({vnet["tag"] for vnet in fake.sdn["vnets"].values()}) == CLIENTS
    doors = {declaration.read(name).plan.gateway.uplink_address for name in names}
    assert len(doors) == CLIENTS
    # It was no walk-over: some were refused, each because of somebody else.
    assert refused
    assert all("exist" in reason or "already" in reason for reason in refused), set(refused)


def _make(client: Client, name: str, site: Site, declared: Workspace) -> None:
    """What Pulumi's provider does, without what comes after: the calls by which something becomes somebody's."""
    view = declaration.observe(site)
    _, plan = plan_on_cluster(declared, site, view)
    vnet = plan.vnet
    if all(seen.alias != vnet.alias for seen in view.vnets):
        client.post("cluster/sdn/vnets", vnet=vnet.name, zone=vnet.zone, tag=vnet.tag, alias=vnet.alias)
    for vm in plan.machines():
        if view.machine_of(vm.owner) is None:
            path = f"nodes/{vm.template_node}/qemu/{vm.template}/clone"
            given = {"name": vm.owner.vm_name, "pool": plan.pool, "full": False}
            wait_task(client, client.post(path, newid=vm.vm_id, **given))


def test_an_id_that_somebody_takes_meanwhile_is_not_taken_over(rack: Rack) -> None:
    """The engine plans one id, somebody else gets it first: another is taken, and nothing of theirs is changed."""
    rack.declare("lab", "dev1")
    wanted = declaration.read("lab").on_cluster
    assert wanted is not None
    node, stolen = wanted.desktops["dev1"].node, wanted.desktops["dev1"].vm_id
    fake = rack.peer.fake

    def steal(call: object) -> None:
        if str(call).startswith("POST /pools"):
            fake.faults.on_call = None
            threading.Thread(target=lambda: rack.peer.client().ask("POST", f"/nodes/{node}/qemu", vmid=stolen)).start()

    fake.faults.on_call = steal
    workspace.up("lab")
    theirs = fake.vm(stolen)
    assert (theirs.config.get("tags"), theirs.status) == (None, "stopped")
    assert rack.machines("lab")["dev1"].vmid != stolen
    assert changed(rack.declare("lab", "dev1").preview()) == []


def test_two_that_come_up_at_once_do_not_both_get_the_last_place(rack: Rack) -> None:
    """One has planned and made nothing yet when the other plans: the cluster shows them the same free memory."""
    fake, refused = rack.peer.fake, list[str]()
    fake.capacities = dict.fromkeys(fake.nodes, Capacity(cpus=16, memory=6 * GIB))
    names = [f"w{number}" for number in range(len(fake.nodes) + 1)]
    for name in names:
        rack.declare(name, "d")

    def next_one(name: str) -> None:
        rest = names[names.index(name) + 1 :]
        if not rest:
            return
        try:
            workspace.up(rest[0], on_steps=lambda: next_one(rest[0]))
        except NoRoom as error:
            refused.append(error.reason)

    workspace.up(names[0], on_steps=lambda: next_one(names[0]))
    assert len(refused) == 1 and "MiB of memory" in refused[0]
    for node in fake.nodes:
        there = [vm for name in names for vm in rack.machines(name).values() if vm.node == node]
        assert sum(int(vm.config["memory"]) for vm in there) <= 6 * 1024


def test_a_site_that_is_full_says_so_before_anything_is_made(rack: Rack) -> None:
    rack.site(vm_ids={"first": 20_000, "last": 20_013})
    rack.declare("lab", "a", "b", "c", "d", "e", "f", "g", "h")
    rack.peer.fake.calls.clear()
    with pytest.raises(ConfigError, match="nothing free"):
        workspace.up("lab")
    assert rack.peer.fake.calls.writes() == []
