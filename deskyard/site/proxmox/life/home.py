"""The volume of /home of a desktop of a cluster: its second disk, which role `home_volume` finds by its serial number.

Read in qemu-server e6352be6 (PVE/API2/Qemu.pm: update_vm_api, create_disks; PVE/QemuServer/Drive.pm; PVE/VZDump/
QemuServer.pm), pve-storage 0c56bad8 (PVE/Storage/Plugin.pm: get_formats, volume_has_feature), util-linux (misc-utils/
lsblk-properties.c: a disk's SERIAL is udev's ID_SCSI_SERIAL, which is that of the drive). Not run on a real cluster. A
volume has the id of its machine in its name, and goes with that: it outlives the system disk, not the machine.
`protection` forbids to take it out, and vzdump takes it along (`backup`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.account import HOME_SERIAL
from deskyard.plan.names import SEAT_SUFFIX
from deskyard.plan.proxmox.home_tag import home_of, with_home
from deskyard.plan.proxmox.placement import DISK_PART
from deskyard.plan.proxmox.view import ClusterView, SeenMachine, pool_of, tags_of
from deskyard.plan.workspace import GATEWAY
from deskyard.site.proxmox.client import ApiError, Client, quoted
from deskyard.site.proxmox.each import ask_each
from deskyard.site.proxmox.kinds.drive import Caps, capped, drive_of, options_of, volume_of
from deskyard.site.proxmox.life.power import CHANGED, WRITES
from deskyard.site.proxmox.life.snapshots import MachineSnapshots
from deskyard.site.proxmox.machine import vm_path

HOME_DISK = "scsi1"
# Types of storage whose disks are files: raw ones if nothing is said, and of a raw file no snapshot is made.
_FILES = frozenset({"cifs", "dir", "nfs"})
_OWN = {"discard": "on", "serial": HOME_SERIAL, "backup": "1"}


def has_home(config: Mapping[str, Any]) -> bool:
    """Whether a machine has a volume of /home."""
    return options_of(str(config.get(HOME_DISK, ""))).get("serial") == HOME_SERIAL


def options(held: Mapping[str, str], caps: Caps) -> dict[str, str]:
    """The options of its drive: those that it has, with ours and the caps of its tier."""
    return capped({**held, **_OWN}, caps)


def new_drive(client: Client, node: str, storage: str, size_gib: int, given: Mapping[str, str]) -> str:
    """The drive of a volume that is to be made, in a form of which snapshots are made as of the system disk."""
    kind = client.get(f"nodes/{node}/storage/{quoted(storage)}/status").get("type")
    form = {"format": "qcow2"} if kind in _FILES else {}
    return drive_of(f"{storage}:{size_gib}", {**form, **given})


def require_free(config: Mapping[str, Any], vm_id: int, own: str | None = None) -> None:
    """Raise `SiteError` if another disk than its own volume of /home has the place of that."""
    there = volume_of(str(config.get(HOME_DISK, "")))
    if there and there != own:
        reason = f"has a disk of somebody at {HOME_DISK}, where its volume of /home belongs: {there}"
        raise SiteError("machine", vm_id, reason, "move that disk to another place of the machine, then run it again")


def promise(client: Client, machine: SeenMachine, storage: str, size_gib: int) -> None:
    """Tag a desktop of before as one that has a volume of /home, which the next `workspace.up` makes then.

    Raises `SiteError`, with nothing written, for one with snapshots, a disk of somebody in its place, or no room for a
    quarter of it.
    """
    path = vm_path(machine.node, machine.vm_id)
    if snapshots := MachineSnapshots(client, machine.node, machine.vm_id).listed():
        names = ", ".join(snapshot.name for snapshot in snapshots)
        reason = f"has snapshots, each of which would take /home back to the system disk: {names}"
        raise SiteError("machine", machine.vm_id, reason, "delete them: ./inv snapshot.delete")
    free = int(client.get(f"nodes/{machine.node}/storage/{quoted(storage)}/status").get("avail") or 0) >> 20
    if free < (needed := int(size_gib * 1024 * DISK_PART)):
        reason = f"{free} MiB are free on {machine.node}; a volume of /home needs {needed}"
        raise SiteError("storage", storage, reason, "delete backups or disks that lie there, or add space")
    for _ in range(WRITES):
        config = client.get(f"{path}/config")
        if home_of(held := tags_of(config)) is not None:
            return
        require_free(config, machine.vm_id)
        try:
            client.put(f"{path}/config", tags=";".join(with_home(held, size_gib)), digest=config["digest"])
        except ApiError as error:
            if CHANGED not in error.reason:
                raise
    reason = f"somebody else changed its configuration {WRITES} times in a row"
    raise SiteError("machine", machine.vm_id, reason, "run the command again")


def with_homeless(client: Client, view: ClusterView, site: str, workspace: str) -> ClusterView:
    """The view with the desktops of a workspace that were made without a volume of /home.

    Their tags do not tell of one, so their configurations are asked. A machine is protected before its first start:
    what is not protected has never run, and gets its volume yet.
    """
    untold = [machine for machine in view.machines_of(site, workspace) if _is_untold(machine, site, workspace)]
    found = {
        machine.vm_id
        for machine, homeless in ask_each(untold, lambda machine: _is_homeless(client, machine))
        if homeless
    }
    return replace(view, homeless=frozenset(found))


def _is_untold(machine: SeenMachine, site: str, workspace: str) -> bool:
    start = f"{pool_of(site, workspace)}."
    names = [tag.removeprefix(start) for tag in machine.tags if tag.startswith(start)]
    name = names[0] if names else machine.name.removesuffix(f".{workspace}")
    return not machine.template and home_of(machine.tags) is None and name != GATEWAY and not name.endswith(SEAT_SUFFIX)


def _is_homeless(client: Client, machine: SeenMachine) -> bool:
    try:
        config = client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
    except SiteError:
        # Its node is away: nothing is to change there.
        return True
    return bool(int(config.get("protection") or 0)) and not has_home(config)
