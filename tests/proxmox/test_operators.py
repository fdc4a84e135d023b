"""The group of operators has a role of ours on each workspace's pool, which the token may give away."""

import pytest

from deskyard.plan.proxmox.view import pool_of
from deskyard.site.proxmox.doctor.privileges import OPERATORS
from tests.proxmox.bench import NAME, Bench
from tests.proxmox.rack import SITE
from tests.support.pve import Client, Peer
from tests.support.pve.asking import refused

pytestmark = pytest.mark.sampled

GROUP = "desk-staff"
# Proxmox VE's own role for users in 9.0 (pve-access-control, PVE/AccessControl.pm): it reaches into guests, and is
# given away only by who holds each of its privileges by name.
VM_USER = (
    "VM.Audit,VM.Backup,VM.Config.CDROM,VM.Config.Cloudinit,VM.Console,VM.PowerMgmt,"
    "VM.GuestAgent.Audit,VM.GuestAgent.FileRead,VM.GuestAgent.FileSystemMgmt,VM.GuestAgent.FileWrite"
)


def test_only_what_one_has_by_name_can_be_given_away(peer: Peer, root: Client) -> None:
    root.ask("POST", "/access/groups", groupid=GROUP)
    root.ask("POST", "/pools", poolid="desk")
    root.ask("POST", "/access/roles", roleid="Giver", privs="Pool.Allocate,VM.Audit,VM.Console")
    root.ask("POST", "/access/roles", roleid="More", privs="VM.Audit,VM.Backup")
    root.ask("POST", "/access/roles", roleid="Less", privs="VM.Audit,VM.Console")
    token = peer.fake.token()
    root.ask("PUT", "/access/acl", path="/pool", roles="Giver", users="deskyard@pve")
    with peer.client(token) as client:
        given = {"path": "/pool/desk", "groups": GROUP}
        refused(client.put("/access/acl", data={**given, "roles": "More"}), 500, "superset of privileges")
        refused(
            client.put("/access/acl", data={"path": "/vms/1", "roles": "Less", "groups": GROUP}), 403, "VM.Allocate"
        )
        client.ask("PUT", "/access/acl", **given, roles="Less")
    shown = [(entry["type"], entry["ugid"], entry["roleid"]) for entry in root.ask("GET", "/access/acl")]
    assert ("group", GROUP, "Less") in shown


@pytest.fixture
def staffed(bench: Bench) -> Bench:
    """A site with a group of operators, on the release whose PVEVMUser reaches into guests."""
    bench.empty()
    rack = bench.rack
    rack.root.ask("POST", "/access/roles", roleid="PVEVMUser", privs=VM_USER)
    rack.root.ask("POST", "/access/groups", groupid=GROUP)
    rack.site(operator_group=GROUP)
    rack._grant()
    return bench


def test_operators_get_their_role_on_the_pool_and_lose_it_with_the_workspace(staffed: Bench) -> None:
    rack = staffed.rack
    rack.declare(NAME, "dev1")
    staffed.run("up")
    path = f"/pool/{pool_of(SITE, NAME)}"
    given = [entry for entry in rack.root.ask("GET", "/access/acl") if entry["type"] == "group"]
    assert [(entry["path"], entry["ugid"], entry["roleid"]) for entry in given] == [(path, GROUP, OPERATORS)]
    assert not {name for name in rack.peer.fake.roles[OPERATORS] if "GuestAgent" in name or "Cloudinit" in name}
    staffed.run("destroy")
    assert [entry for entry in rack.root.ask("GET", "/access/acl") if entry["type"] == "group"] == []


def test_the_clusters_own_role_for_users_could_not_be_given(staffed: Bench) -> None:
    rack, path = staffed.rack, f"/pool/{pool_of(SITE, NAME)}"
    rack.root.ask("POST", "/pools", poolid=pool_of(SITE, NAME))
    with rack.peer.client(rack.token_file.read_text().strip()) as client:
        given = {"path": path, "roles": "PVEVMUser", "groups": GROUP}
        refused(client.put("/access/acl", data=given), 500, "Cannot add role 'PVEVMUser'")
        client.ask("PUT", "/access/acl", path=path, roles=OPERATORS, groups=GROUP)
