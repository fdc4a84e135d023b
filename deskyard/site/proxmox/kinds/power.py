"""Turns a machine on that is wanted to run, once everything that guards it is in place; grows its disk, and caps it.

Pulumi's provider can only start a machine while it makes it: its firewall would come later. It grows no disk of a
machine that runs, and where it changes one it takes out those that it did not declare (bpg/terraform-provider-proxmox,
disk.go), such as the volume of /home. `protection` is set here as well, just before the first start: a machine without
it has never run and holds nothing.
"""

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from deskyard.plan.power import Power
from deskyard.plan.proxmox.power_tag import wish_of
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.kinds.disk_size import disk_size_gib, refuse_smaller
from deskyard.site.proxmox.kinds.drive import Caps, capped, caps_of, drive_of, options_of, volume_of
from deskyard.site.proxmox.kinds.inputs import PowerInputs
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.machine import node_of, vm_path
from deskyard.site.proxmox.task import finish, wait_task
from deskyard.site.resource.cancellation import CANCELLATION
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values

RESIZE_SECONDS = 600.0


class PowerKind(Kind[PowerInputs]):
    """`deskyard:proxmox:Power`: a machine that runs if it is wanted to; `start` differs for each that was ever made.

    What it is wanted to be is a tag of the machine: one that was stopped or paused is left so, and is no drift.
    """

    replaces: ClassVar[frozenset[str]] = frozenset({"site", "vm_id"})
    ignored: ClassVar[frozenset[str]] = frozenset({"node"})
    desired: ClassVar[Values] = {"running": True, "guarded": True}
    computed: ClassVar[tuple[str, ...]] = ("running", "guarded", "start")

    def check(self, old: Values, new: Values) -> list[tuple[str, str]]:
        """A disk never shrinks."""
        return refuse_smaller(old, new, "disk_gib")

    def create(self, link: Any, inputs: PowerInputs) -> tuple[str, Values]:
        """Protect it, and start it if it is wanted to run; fine if it runs."""
        outputs = self._on(link(inputs["site"]), inputs)
        return str(inputs["vm_id"]), {**outputs, "start": uuid.uuid4().hex}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Whether it is as wanted or runs, and has its protection."""
        client = link(state["site"])
        node = node_of(client, int(identity))
        if node is None:
            return None
        path = vm_path(node, int(identity))
        config = client.get(f"{path}/config")
        protection = bool(int(config.get("protection") or 0))
        wanted = wish_of(config) is Power.RUNNING
        running = not wanted or MachinePower(client, node, int(identity)).state() not in ("stopped", "saved", "paused")
        guarded = protection or not state["protected"]
        # Somebody may have given it more: that is kept.
        disk_gib = min(state["disk_gib"], disk_size_gib(config, state["disk"]))
        seen = caps_of(options_of(str(config[state["disk"]]))).among(state)
        return {**seen, "node": node, "disk_gib": disk_gib, "running": running, "guarded": guarded}

    def update(self, link: Any, identity: str, state: Values, inputs: PowerInputs) -> Values:
        """Start it again, if it is wanted to run."""
        return {**self._on(link(inputs["site"]), inputs), "start": state["start"]}

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Pull its plug and lift its protection: it is removed next."""
        client = link(state["site"])
        node = node_of(client, int(identity))
        if node is not None:
            stop(client, node, int(identity))

    def _on(self, client: Client, inputs: PowerInputs) -> Values:
        node = node_of(client, inputs["vm_id"]) or inputs["node"]
        path, power = vm_path(node, inputs["vm_id"]), MachinePower(client, node, inputs["vm_id"])
        if inputs["protected"]:
            client.put(f"{path}/config", protection=True)
        config = client.get(f"{path}/config")
        if disk_size_gib(config, inputs["disk"]) < inputs["disk_gib"]:
            upid = client.put(f"{path}/resize", disk=inputs["disk"], size=f"{inputs['disk_gib']}G")
            wait_task(client, upid, RESIZE_SECONDS)
        _cap(client, path, inputs, config)
        if wish_of(config) is Power.RUNNING and power.let_run():
            power.set_clock(CANCELLATION.pause)
        return {"running": True, "guarded": True}


def _cap(client: Client, path: str, inputs: PowerInputs, config: Mapping[str, Any]) -> None:
    """Give its disk the caps of its tier, also while it runs."""
    drive = str(config[inputs["disk"]])
    held = options_of(drive)
    wanted = capped(held, Caps.wanted(inputs))
    if wanted != held:
        given = {inputs["disk"]: drive_of(volume_of(drive), wanted)}
        finish(client, client.post(f"{path}/config", **given, digest=config["digest"]), RESIZE_SECONDS)


def stop(client: Client, node: str, vm_id: int) -> None:
    """Pull the plug of a machine whose disk goes too, and let it be removed."""
    MachinePower(client, node, vm_id).pull_plug()
    client.put(f"{vm_path(node, vm_id)}/config", protection=False)
