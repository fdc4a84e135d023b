"""Every call that we and the provider make is one of the published schema, with the rights that its text asks for.

The schema is the one that fakepve carries. `DESKYARD_PVE_SCHEMA=FILE` holds the calls against another: the tree that
`PVE::RESTHandler::api_dump` gives, as in the apidoc.js of a cluster's own pve-docs.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakepve import schema

from deskyard.plan.power import Power
from deskyard.site.files import read_site
from deskyard.site.proxmox.doctor.doctor import examine
from deskyard.site.proxmox.machines import ClusterMachines
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import SITE, watched
from tests.support.pve.calls import Call

# What the text of a method asks for beyond its rule, and how the roles of privileges.py meet it.
READ = {
    ("GET", "/access/permissions"): "one's own permissions; others' need Sys.Audit on /access",
    ("GET", "/cluster/firewall/options"): "Sys.Audit on /",
    ("GET", "/cluster/options"): "any user; some of it needs Sys.Audit on /",
    ("GET", "/cluster/resources"): "any user; shown is what one may audit",
    ("GET", "/cluster/sdn/vnets"): "SDN.Audit or SDN.Allocate on the zone",
    ("GET", "/cluster/sdn/zones"): "SDN.Audit or SDN.Allocate on the zone",
    ("GET", "/nodes/{node}/network"): "any user",
    ("GET", "/nodes/{node}/qemu"): "any user; shown is what one may audit",
    ("GET", "/nodes/{node}/sdn/zones"): "SDN.Audit on the zone",
    ("GET", "/nodes/{node}/storage"): "Datastore.Audit or Datastore.AllocateSpace on the storage",
    (
        "GET",
        "/nodes/{node}/storage/{storage}/content/{volume}",
    ): "rights on the storage, or on the volume's guest",
    ("GET", "/nodes/{node}/tasks"): "Sys.Audit on the node: reloads of networks are root's tasks",
    ("GET", "/nodes/{node}/tasks/{upid}/log"): "one's own, or Sys.Audit on the node",
    ("GET", "/nodes/{node}/tasks/{upid}/status"): "one's own, or Sys.Audit on the node",
    ("GET", "/pools"): "Pool.Audit on the pool",
    ("GET", "/version"): "any user",
    (
        "POST",
        "/nodes/{node}/qemu/{vmid}/clone",
    ): "VM.Clone on the source, VM.Allocate on id or pool, AllocateSpace",
    ("DELETE", "/nodes/{node}/qemu/{vmid}"): "VM.Allocate on the machine",
    ("PUT", "/nodes/{node}/qemu/{vmid}/config"): "the right of each option; beyond the text: Sys.Modify for `startup`",
    ("POST", "/nodes/{node}/qemu/{vmid}/config"): "as PUT",
    ("PUT", "/cluster/sdn/vnets/{vnet}"): "SDN.Allocate on the VNet's zone",
    ("DELETE", "/cluster/sdn/vnets/{vnet}"): "SDN.Allocate on the VNet's zone",
    ("GET", "/cluster/sdn/vnets/{vnet}"): "SDN.Audit or SDN.Allocate on the VNet",
    ("PUT", "/pools"): "Pool.Allocate on the pool, VM.Allocate on its machines",
}


@pytest.fixture(scope="module")
def published() -> schema.Schema:
    """The schema that the calls are held against."""
    file = os.environ.get("DESKYARD_PVE_SCHEMA")
    return schema.load() if file is None else schema.Schema(dict(_methods(json.loads(Path(file).read_text()))))


@pytest.fixture(scope="module")
def calls(bench: Bench) -> list[Call]:
    """What a workspace asks from its making to its end: desktops moved, a bigger tier, drift put back, one less."""
    bench.up()
    rack, made = bench.rack, list(bench.making)
    with watched(rack.peer) as seen:
        rack.root.ask("PUT", f"{rack.node_path(NAME, 'dev2')}/config", description="somebody's")
        rack.root.ask("DELETE", f"{rack.node_path(NAME, 'dev2')}/firewall/rules/0")
        rack.peer.fake.calls.clear()
        _move(ClusterMachines(rack.plan(NAME).plan, read_site(SITE)))
        bench.run("status", drift=True)
        examine(read_site(SITE))
        rack.declare(NAME, f"{DESKTOPS[0]}:pro")
        bench.run("up", remove=[DESKTOPS[1]])
        bench.run("destroy")
    return [*made, *seen]


def test_every_call_is_published_with_its_parameters(calls: list[Call], published: schema.Schema) -> None:
    found = set(_faults(calls, published))
    assert sorted(found) == []
    assert len({_method(call, published) for call in calls}) > 25


def test_a_call_that_is_not_published_would_be_found(published: schema.Schema) -> None:
    wrong = [
        Call(1, "GET", "/cluster/nothing"),
        Call(2, "PATCH", "/version"),
        Call(3, "PUT", "/nodes/pve1/qemu/100/config", parameters={"coers": "2"}),
        Call(4, "PUT", "/nodes/pve1/qemu/100/config", parameters={"cores": "two"}),
    ]
    assert len(set(_faults(wrong, published))) == 4


def test_the_text_of_every_permission_was_read(calls: list[Call], published: schema.Schema) -> None:
    asked = {key for call in calls if (key := _method(call, published)) is not None}
    texts = {
        key: rights.get("description") or rights
        for key in asked
        if "check" not in (rights := published.paths[key[1]][key[0]].get("permissions") or {})
    }
    assert {key: text for key, text in texts.items() if key not in READ} == {}


def _move(machines: ClusterMachines) -> None:
    """All that moves machines, once."""
    for domain in machines.desired():
        for to_disk in (False, True):
            machines.want(domain, Power.PAUSED)
            machines.pause(domain, to_disk=to_disk)
            machines.want(domain, Power.RUNNING)
            machines.start(domain)
        for force in (False, True):
            machines.shut_down(domain, force=force)
            machines.start(domain)


def _faults(calls: Iterable[Call], published: schema.Schema) -> Iterator[str]:
    for call in calls:
        found = published.match(call.path)
        info = found.methods.get(call.method) if found else None
        if found is None or info is None:
            yield f"{call.method} {call.path} is not published"
            continue
        given = {key: value for key, value in call.parameters.items() if value != "***"}
        hidden = call.parameters.keys() - given.keys()
        _, errors = schema.validate(info.get("parameters"), {**given, **found.params})
        for name, why in errors.items():
            if name not in hidden:
                yield f"{call.method} {found.template} {name}={given.get(name)!r}: {why}"


def _method(call: Call, published: schema.Schema) -> tuple[str, str] | None:
    found = published.match(call.path)
    return (call.method, found.template) if found and call.method in found.methods else None


def _methods(tree: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path -> method -> what is published of it."""
    for node in tree:
        if "info" in node:
            yield node["path"], node["info"]
        yield from _methods(node.get("children") or [])
