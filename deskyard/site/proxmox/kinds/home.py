"""Gives a desktop its volume of /home, before its first start, and grows it with its tier, also while it runs.

It belongs to its machine, is guarded by the protection of that one, and is removed together with it. One that was taken
out by hand is still the machine's, unused, and is put back.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from deskyard.errors import SiteError
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.kinds.disk_size import disk_size_gib, refuse_smaller
from deskyard.site.proxmox.kinds.drive import Caps, caps_of, drive_of, options_of, volume_of
from deskyard.site.proxmox.kinds.inputs import HomeInputs
from deskyard.site.proxmox.life.home import HOME_DISK, has_home, new_drive, options, require_free
from deskyard.site.proxmox.machine import node_of, vm_path
from deskyard.site.proxmox.task import finish, running
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values

CONFIG, DISK_SECONDS = "qmconfig", 600.0


class HomeKind(Kind[HomeInputs]):
    """`deskyard:proxmox:Home`: the volume of /home of one machine."""

    replaces: ClassVar[frozenset[str]] = frozenset({"site", "vm_id"})
    # An administrator may move either.
    ignored: ClassVar[frozenset[str]] = frozenset({"node", "storage"})
    desired: ClassVar[Values] = {"attached": True}
    computed: ClassVar[tuple[str, ...]] = ("attached", "volume")

    def check(self, old: Values, new: Values) -> list[tuple[str, str]]:
        """A disk never shrinks."""
        return refuse_smaller(old, new, "size_gib")

    def create(self, link: Any, inputs: HomeInputs) -> tuple[str, Values]:
        """Make it, or keep the one that is there."""
        return f"{inputs['vm_id']}/{HOME_DISK}", self._give(link(inputs["site"]), inputs, None)

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Whether it is there and in its place, how large it is and how it is capped."""
        client, vm_id = link(state["site"]), int(state["vm_id"])
        node = node_of(client, vm_id)
        if node is None:
            return None
        config = client.get(f"{vm_path(node, vm_id)}/config")
        if not has_home(config):
            return {**state, "node": node, "attached": False} if state["volume"] in _volumes(config) else None
        drive = str(config[HOME_DISK])
        return {
            **caps_of(options_of(drive)).among(state),
            "node": node,
            # Somebody may have given it more: that is kept.
            "size_gib": min(state["size_gib"], disk_size_gib(config, HOME_DISK)),
            "attached": True,
            "volume": volume_of(drive),
        }

    def update(self, link: Any, identity: str, state: Values, inputs: HomeInputs) -> Values:
        """Put it back, cap it, grow it; the guest grows the file system at its next boot."""
        return self._give(link(inputs["site"]), inputs, state["volume"])

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Take it out of its machine, which keeps it as unused; while that is protected the cluster refuses."""
        client, vm_id = link(state["site"]), int(state["vm_id"])
        node = node_of(client, vm_id)
        if node is None:
            return
        config = client.get(f"{vm_path(node, vm_id)}/config")
        if has_home(config):
            finish(client, client.post(f"{vm_path(node, vm_id)}/config", delete=HOME_DISK, digest=config["digest"]))

    def _give(self, client: Client, inputs: HomeInputs, own: str | None) -> Values:
        node = node_of(client, inputs["vm_id"]) or inputs["node"]
        path = vm_path(node, inputs["vm_id"])
        for upid in running(client, node, kind=CONFIG, vmid=inputs["vm_id"]):
            # What an interrupted run began goes on; how it ends is seen in what is there.
            with suppress(SiteError):
                finish(client, upid, DISK_SECONDS)
        config = client.get(f"{path}/config")
        there = str(config.get(HOME_DISK, ""))
        held = options_of(there)
        volume = volume_of(there) if has_home(config) else _free_volume(config, inputs["vm_id"], own)
        wanted = options(held, Caps.wanted(inputs))
        if volume is None or volume != volume_of(there) or wanted != held:
            place = (client, node, inputs["storage"], inputs["size_gib"])
            given = drive_of(volume, wanted) if volume else new_drive(*place, wanted)
            finish(client, client.post(f"{path}/config", **{HOME_DISK: given}, digest=config["digest"]), DISK_SECONDS)
            config = client.get(f"{path}/config")
        if disk_size_gib(config, HOME_DISK) < inputs["size_gib"]:
            upid = client.put(f"{path}/resize", disk=HOME_DISK, size=f"{inputs['size_gib']}G")
            finish(client, upid, DISK_SECONDS)
        return {"attached": True, "volume": volume_of(str(config[HOME_DISK]))}


def _free_volume(config: Mapping[str, Any], vm_id: int, own: str | None) -> str | None:
    """The volume that was taken out of a machine, None if it has none; raises `SiteError` if its place is taken."""
    require_free(config, vm_id, own)
    return own if own in _volumes(config) else None


def _volumes(config: Mapping[str, Any]) -> set[str]:
    """The volumes that are in the place of /home, or unused."""
    return {volume_of(str(value)) for key, value in config.items() if key == HOME_DISK or key.startswith("unused")}
