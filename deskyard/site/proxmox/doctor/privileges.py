"""Privileges of the token, and why: the one table from which roles are made and against which a token is checked."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.model.proxmox import Cluster

Version = tuple[int, int]
_ALL: Version = (0, 0)
# Proxmox VE 9 split VM.Monitor up.
_AGENT: Version = (9, 0)
OPERATORS = "DeskyardOperators"
"""The role of the operators of a workspace on its pool."""
_THROUGH_AGENT = "ask a guest's agent: for its host key, to run the gateway's program, to set the clock after a pause"


@dataclass(frozen=True)
class Privilege:
    """A privilege that is needed, by versions from `since` to before `until`."""

    name: str
    reason: str
    since: Version = _ALL
    until: Version | None = None

    def needed_by(self, version: Version) -> bool:
        """Whether this version of Proxmox VE has and asks for it."""
        return self.since <= version and (self.until is None or version < self.until)


@dataclass(frozen=True)
class Role:
    """A role of Proxmox VE, and the path on which the token has it."""

    name: str
    path: str
    privileges: tuple[Privilege, ...]
    propagate: bool = True

    def names(self, version: Version) -> tuple[str, ...]:
        """The privileges that this version needs, sorted."""
        return tuple(sorted(privilege.name for privilege in self.privileges if privilege.needed_by(version)))


# Machines are reached through their pools: the token has no power over machines that are in no pool. Those of other
# people's pools it reaches too: Proxmox VE knows no pattern of pools, and a workspace's is not there before it is made.
_ROLES = (
    Role(
        "DeskyardRead", "/", (Privilege("Sys.Audit", "read nodes, quorum, bridges, clocks, firewall options, tasks"),)
    ),
    Role("DeskyardIds", "/vms", (Privilege("VM.Audit", "see which ids are taken and what runs on a node"),)),
    Role(
        "DeskyardMachines",
        "/pool",
        (
            Privilege("Pool.Allocate", "make and remove the pool of a workspace, put machines into it"),
            Privilege("Pool.Audit", "read the pools"),
            Privilege("VM.Allocate", "make and remove machines, turn one into a template"),
            Privilege("VM.Audit", "read the configuration of machines"),
            Privilege("VM.Clone", "clone templates"),
            Privilege("VM.Config.CPU", "set the CPUs of the tier"),
            Privilege("VM.Config.CDROM", "keep the drive empty that Pulumi's provider gives each machine"),
            Privilege("VM.Config.Cloudinit", "set the first boot: names, addresses, the management key"),
            Privilege("VM.Config.Disk", "import, grow, cap and remove disks; keep the memory of a machine on disk"),
            Privilege("VM.Config.HWType", "set controller, serial console and machine type"),
            Privilege("VM.Config.Memory", "set the memory of the tier"),
            Privilege("VM.Config.Network", "set NICs and the firewall of a machine"),
            Privilege("VM.Config.Options", "set name, tags, the guest agent, whether it starts with its node"),
            Privilege("VM.PowerMgmt", "start, shut down, stop, pause and resume machines"),
            # It includes what asking for files and states needs.
            Privilege("VM.GuestAgent.Unrestricted", _THROUGH_AGENT, since=_AGENT),
            Privilege("VM.Monitor", _THROUGH_AGENT, until=_AGENT),
            # It includes going back to one, which VM.Snapshot.Rollback alone would allow as well.
            Privilege("VM.Snapshot", "take, delete and go back to snapshots of machines"),
        ),
    ),
    Role(
        # Who gives a role away has to have each of its privileges by name (pve-access-control, PVE/API2/ACL.pm), so the
        # token has this one, too. Proxmox VE's own PVEVMUser would let operators into the guests: by cloud-init's
        # accounts, and from 9.0 on by reading and writing files.
        OPERATORS,
        "/pool",
        (
            Privilege("VM.Audit", "let the group of operators see its machines"),
            Privilege("VM.Backup", "let the group of operators make backups of machines"),
            Privilege("VM.Console", "let the group of operators see consoles"),
            Privilege("VM.PowerMgmt", "let the group of operators start and stop machines"),
        ),
    ),
    Role(
        "DeskyardImages",
        "/storage/{images}",
        (
            Privilege("Datastore.Allocate", "remove an upload once its template is made"),
            Privilege("Datastore.AllocateTemplate", "upload images"),
            Privilege("Datastore.Audit", "see which uploads are there, and the free space"),
        ),
    ),
    Role(
        "DeskyardDisks",
        "/storage/{disks}",
        (
            Privilege("Datastore.AllocateSpace", "make disks, keep the memory of machines that are paused to disk"),
            Privilege("Datastore.Audit", "see disks and the free space"),
        ),
    ),
    Role(
        "DeskyardTemplates",
        "/storage/{templates}",
        (
            Privilege("Datastore.AllocateSpace", "make the disks of templates"),
            Privilege("Datastore.Audit", "see disks and the free space"),
        ),
    ),
    Role(
        "DeskyardBackups",
        "/storage/{backups}",
        (
            Privilege("Datastore.AllocateSpace", "make backups, remove those that are not kept"),
            Privilege("Datastore.Audit", "see backups"),
        ),
    ),
    Role("DeskyardBackedUp", "/pool", (Privilege("VM.Backup", "make, see and remove backups of machines"),)),
    Role("DeskyardNetworks", "/sdn", (Privilege("SDN.Audit", "read zones and VNets, so that no tag is taken twice"),)),
    # Not propagated: it is for applying the configuration, and gives no power over the zones of others.
    Role("DeskyardApply", "/sdn", (Privilege("SDN.Allocate", "apply the network configuration"),), propagate=False),
    Role(
        "DeskyardZone",
        "/sdn/zones/{zone}",
        (
            Privilege("SDN.Allocate", "make and remove the VNets of workspaces"),
            Privilege("SDN.Audit", "read them"),
            Privilege("SDN.Use", "connect machines to them"),
        ),
    ),
    Role(
        "DeskyardUplink", "/sdn/zones/localnetwork/{bridge}", (Privilege("SDN.Use", "connect gateways to the uplink"),)
    ),
)


def roles(cluster: Cluster) -> tuple[Role, ...]:
    """The roles that a site's token has, with their paths on this cluster."""
    storages = cluster.storages
    places = {
        "images": storages.images,
        "disks": storages.disks,
        "templates": storages.of_templates,
        "backups": storages.backups,
        "zone": cluster.zone.name,
        "bridge": cluster.uplink.bridge,
    }
    left_out = set()
    if storages.of_templates == storages.disks:
        left_out.add("DeskyardTemplates")
    if storages.backups is None:
        left_out |= {"DeskyardBackups", "DeskyardBackedUp"}
    if cluster.operator_group is None:
        left_out.add(OPERATORS)
    return tuple(
        Role(role.name, role.path.format_map(places), role.privileges, role.propagate)
        for role in _ROLES
        if role.name not in left_out
    )


def needed(cluster: Cluster, version: Version) -> dict[str, dict[str, str]]:
    """Path -> privilege -> its reason: what the token has to have on each path itself."""
    found: dict[str, dict[str, str]] = {}
    for role in roles(cluster):
        reasons = found.setdefault(role.path, {})
        reasons.update(
            {privilege.name: privilege.reason for privilege in role.privileges if privilege.needed_by(version)}
        )
    return found


def plain(cluster: Cluster, version: Version) -> list[dict[str, Any]]:
    """The roles as plain data: what `hypervisor_api_roles` of the role `hypervisor` takes."""
    return [
        {"name": role.name, "path": role.path, "privileges": list(role.names(version)), "propagate": role.propagate}
        for role in roles(cluster)
    ]


def missing(cluster: Cluster, version: Version, held: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str, str]]:
    """List what a token lacks: path, privilege and what it is needed for. `held`: path -> privileges in force there."""
    return [
        (path, name, reason)
        for path, reasons in needed(cluster, version).items()
        for name, reason in sorted(reasons.items())
        if name not in held.get(path, {})
    ]


def surplus(cluster: Cluster, version: Version, held: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str]]:
    """List what a token has and should not have: path and privilege."""
    return [
        (path, name)
        for path, names in sorted(held.items())
        for name in sorted(names)
        if name not in _granted(cluster, version, path)
    ]


def commands(cluster: Cluster, version: Version, user: str, paths: Collection[str] | None = None) -> list[str]:
    """The commands, run on a node as root, that give `user` and its tokens exactly what is needed, on these paths."""
    lines = []
    for role in roles(cluster):
        if paths is not None and role.path not in paths:
            continue
        names = ",".join(role.names(version))
        # Whether the role is there already is not known here.
        lines.append(f"pveum role add {role.name} --privs '{names}' || pveum role modify {role.name} --privs '{names}'")
        line = f"pveum acl modify {role.path} --users {user} --roles {role.name}"
        lines.append(line if role.propagate else f"{line} --propagate 0")
    return lines


def _granted(cluster: Cluster, version: Version, path: str) -> set[str]:
    """Privileges of our roles on a path: an ACL entry there replaces what is inherited; pools add to their machines."""
    ours = roles(cluster)
    here = [role for role in ours if role.path == path]
    if not here:
        above = [role for role in ours if role.propagate and path.startswith(role.path.rstrip("/") + "/")]
        nearest = max((len(role.path) for role in above), default=0)
        here = [role for role in above if len(role.path) == nearest]
    if path.startswith("/vms/"):
        here += [role for role in ours if role.path == "/pool"]
    return {name for role in here for name in role.names(version)}
