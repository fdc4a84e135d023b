"""Exactly the privileges of the table: none missing, none too many."""

from typing import Any

import pytest
from fakepve import schema

from deskyard.model.proxmox import Cluster
from deskyard.model.site import Site
from deskyard.site.proxmox.doctor.privileges import OPERATORS, Version, commands, missing, needed, plain, roles, surplus
from tests.unit.site.stub import site_values

VERSIONS: list[Version] = [(8, 4), (9, 0)]


def cluster(**values: Any) -> Cluster:
    found = Site.check(site_values("https://192.0.2.2:8006", **values), "site.yaml").proxmox
    assert found is not None
    return found


def exact(version: Version) -> dict[str, dict[str, int]]:
    return {path: dict.fromkeys(reasons, 1) for path, reasons in needed(cluster(), version).items()}


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_token_with_exactly_the_table_is_fine(version: Version) -> None:
    held = exact(version)
    # What the cluster shows besides: inherited on a node, on a VNet of ours, and on a machine in one of our pools.
    held["/nodes/pve1"] = held["/"]
    held["/sdn/zones/deskyard/dy1"] = held["/sdn/zones/deskyard"]
    held["/vms/20001"] = {**held["/pool"], **held["/vms"]}
    assert missing(cluster(), version, held) == []
    assert surplus(cluster(), version, held) == []


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_each_privilege_is_missed_by_name_with_its_reason(version: Version) -> None:
    for path, reasons in needed(cluster(), version).items():
        for name, reason in reasons.items():
            held = exact(version)
            del held[path][name]
            assert missing(cluster(), version, held) == [(path, name, reason)]


@pytest.mark.parametrize(
    ("path", "name"),
    [("/", "Sys.Modify"), ("/access", "Permissions.Modify"), ("/vms", "VM.PowerMgmt"), ("/sdn/zones/other", "SDN.Use")],
)
def test_what_is_too_much_is_named(path: str, name: str) -> None:
    held = exact((9, 0))
    held.setdefault(path, {})[name] = 1
    assert (path, name) in surplus(cluster(), (9, 0), held)


def test_applying_networks_gives_no_power_over_the_zones_of_others() -> None:
    held = exact((9, 0)) | {"/sdn/zones/other": {"SDN.Audit": 1, "SDN.Allocate": 1}}
    assert surplus(cluster(), (9, 0), held) == [("/sdn/zones/other", "SDN.Allocate")]


def test_agent_of_a_guest_is_asked_with_the_privileges_that_the_version_knows() -> None:
    assert "VM.Monitor" in needed(cluster(), (8, 4))["/pool"]
    assert "VM.Monitor" not in needed(cluster(), (9, 0))["/pool"]
    assert "VM.GuestAgent.Unrestricted" in needed(cluster(), (9, 1))["/pool"]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_what_the_power_of_a_machine_takes_is_needed_and_said(version: Version) -> None:
    """Their texts in the schema of `status/suspend`, and qemu-server's check of tags and `onboot`."""
    found = needed(cluster(storages={"disks": "fast"}), version)
    agent = "VM.Monitor" if version < (9, 0) else "VM.GuestAgent.Unrestricted"
    words = {"VM.PowerMgmt": "pause", "VM.Config.Options": "tags", "VM.Config.Disk": "memory", agent: "clock"}
    assert {name: word for name, word in words.items() if word not in found["/pool"].get(name, "")} == {}
    assert "memory" in found["/storage/fast"]["Datastore.AllocateSpace"]


def test_storage_of_templates_has_its_role_where_it_is_another() -> None:
    own = cluster(storages={"templates": "fast", "disks": "fast"})
    other = cluster(storages={"templates": "slow", "disks": "fast"})
    assert "DeskyardTemplates" not in {role.name for role in roles(own)}
    assert "/storage/slow" in {role.path for role in roles(other)}


def test_commands_make_every_role_and_give_it_on_its_path() -> None:
    lines = commands(cluster(), (9, 0), "deskyard@pve")
    for role in roles(cluster()):
        assert any(f"role add {role.name} --privs '{','.join(role.names((9, 0)))}'" in line for line in lines)
        assert any(f"acl modify {role.path} --users deskyard@pve --roles {role.name}" in line for line in lines)
    assert sum("--propagate 0" in line for line in lines) == 1


def test_what_operators_get_is_needed_where_they_are_named() -> None:
    assert "VM.Console" not in needed(cluster(), (9, 0))["/pool"]
    assert "VM.Console" in needed(cluster(operator_group="staff"), (9, 0))["/pool"]


def test_operators_get_into_no_guest() -> None:
    role = next(role for role in roles(cluster(operator_group="staff")) if role.name == OPERATORS)
    for version in ((8, 4), (9, 0), (9, 1)):
        assert set(role.names(version)) == {"VM.Audit", "VM.Backup", "VM.Console", "VM.PowerMgmt"}


def test_plain_data_says_the_same_as_the_table() -> None:
    given: dict[str, set[str]] = {}
    for role in plain(cluster(), (9, 0)):
        given.setdefault(role["path"], set()).update(role["privileges"])
    assert given == {path: set(reasons) for path, reasons in needed(cluster(), (9, 0)).items()}
    assert [role["name"] for role in plain(cluster(), (9, 0)) if not role["propagate"]] == ["DeskyardApply"]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", ""), ("DELETE", "/{snapname}"), ("POST", "/{snapname}/rollback")],
)
def test_snapshots_are_made_and_gone_back_to_with_a_needed_privilege(version: Version, method: str, path: str) -> None:
    """By the rule of each call in the schema; any of its privileges is enough."""
    held = needed(cluster(), version)["/pool"]
    published = schema.load().paths[f"/nodes/{{node}}/qemu/{{vmid}}/snapshot{path}"][method]
    kind, on, names, *_ = published["permissions"]["check"]
    assert (kind, on) == ("perm", "/vms/{vmid}")
    assert set(names) & held.keys()
    assert "VM.Snapshot.Rollback" not in held
