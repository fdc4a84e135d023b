"""A site that starts from the same moments again and again: nothing there yet, or one workspace that is up."""

import contextlib
import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

from deskyard.site.management_key import public_key
from tests.proxmox.client_process import ClientProcess
from tests.proxmox.rack import SITE, Rack, watched
from tests.support.pve.memory import Memory

NAME, DESKTOPS = "lab", ("dev1", "dev2")
# What Proxmox VE makes anew for each machine.
OF_CHANCE = ("vmgenid", "smbios1", "meta", "digest")
IDS_OF_CHANCE = ("pulumi:providers:", "proxmoxve:sdn/applier:")
PARTS = re.compile(r"[^.\[\]]+")
VOLUME = re.compile(r"(vm-\d+-disk)-\d+")


class Moment:
    """The cluster, and what the client has on its disk."""

    def __init__(self, rack: Rack, name: str) -> None:
        self._rack, self._kept = rack, rack.folder / "moments" / name
        self._cluster = Memory(rack.peer)
        for part in (_state(rack), rack.stacks):
            shutil.copytree(part, self._kept / part.name, symlinks=True)

    def back(self) -> None:
        """Be there again."""
        self._cluster.put_back()
        for part in (_state(self._rack), self._rack.stacks):
            shutil.rmtree(part)
            shutil.copytree(self._kept / part.name, part, symlinks=True)
        self._rack.peer.fake.calls.clear()
        self._rack.peer.fake.faults.on_call = None


class Bench:
    """A rack with its moments; the second is made when it is first asked for."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack
        # Made once, so that all runs put the same into their machines.
        public_key(SITE)
        self._empty, self._left = Moment(rack, "empty"), rack.peer.fake.left()
        self._up: Moment | None = None
        # The calls that made it.
        self.making: list[Any] = []
        # What the build lacks whose commands are run: see weakened.py.
        self.lacking: tuple[str, ...] = ()

    def empty(self) -> None:
        """Nothing is there."""
        self._empty.back()

    def up(self) -> None:
        """One workspace with two desktops is there."""
        if self._up is None:
            self.empty()
            self.rack.declare(NAME, *DESKTOPS)
            with watched(self.rack.peer) as self.making:
                self.run("up")
            self._up = Moment(self.rack, "up")
        self._up.back()

    def start(self, command: str, **named: Any) -> ClientProcess:
        """Begin a command on the workspace."""
        return ClientProcess(self.rack, self.lacking, command, NAME, **named)

    def run(self, command: str, **named: Any) -> Any:
        """Run a command, which has to succeed; what it answers."""
        process = self.start(command, **named)
        ending = process.wait()
        assert ending.error == "", f"{command}: {ending.error}\n{process.tail()}"
        return ending.answer

    def settled(self, *desktops: str) -> None:
        """Fail unless the workspace is as declared: each machine once, all guarded and running, nothing to be done."""
        found = self.rack.machines(NAME)
        assert sorted(found) == sorted(["gateway", *desktops])
        assert {vm.status for vm in found.values()} == {"running"}
        ids = {vm.vmid for vm in found.values()}
        fake = self.rack.peer.fake
        assert fake.pools[f"deskyard.{SITE}.{NAME}"] == ids
        assert {vm.vmid for vm in fake.vms if not vm.template} == ids
        assert {vm_id for vm_id, conf in fake._fw()["guests"].items() if any(conf.values())} == ids
        volumes = [volume for store in fake.storages.values() for volume in store["volumes"].values()]
        # The disk, the drive of cloud-init, and of a desktop the volume of /home.
        own = [*ids, *ids, *(vm.vmid for name, vm in found.items() if name != "gateway")]
        assert sorted(volume["vmid"] for volume in volumes if volume.get("vmid") in ids) == sorted(own)
        assert [vnet["alias"] for vnet in fake.sdn["vnets"].values()] == [f"deskyard.{SITE}.{NAME}"]
        assert fake.sdn == fake.sdn_running
        assert self.run("preview")["steps"] == []

    def gone(self) -> None:
        """Fail unless nothing of the workspace is left."""
        assert self.rack.peer.fake.left() == self._left

    def remembered(self) -> str:
        """What Pulumi's state says of the workspace, without what is of chance; with who holds its lock."""
        backend = _state(self.rack) / "pulumi" / "backend"
        found = [str(path) for path in sorted(backend.rglob("locks/**/*.json"))]
        for path in sorted(backend.rglob(f"stacks/**/{NAME}.json")):
            # It is written in place, and may be half written or just be gone.
            with contextlib.suppress(FileNotFoundError):
                text = path.read_text()
                try:
                    found += _deployed(json.loads(text))
                except ValueError:
                    found.append(text)
        return json.dumps(found, sort_keys=True, indent=1)

    def outcome(self) -> str:
        """The cluster and the state without what is of chance, to be compared."""
        fake = self.rack.peer.fake
        machines = {
            name: [
                vm.vmid,
                vm.status,
                {key: VOLUME.sub(r"\1", str(value)) for key, value in vm.config.items() if key not in OF_CHANCE},
                fake._fw()["guests"].get(vm.vmid),
            ]
            for name, vm in sorted(self.rack.machines(NAME).items())
        }
        left = {kind: VOLUME.sub(r"\1", str(sorted(names))) for kind, names in sorted(fake.left().items())}
        return json.dumps([machines, left, json.loads(self.remembered())], default=str, sort_keys=True, indent=1)


def _deployed(state: dict[str, Any]) -> list[Any]:
    """The resources of a state with what they were given, and the steps that were begun."""
    latest = state.get("checkpoint", {}).get("latest") or {}
    kept = [
        [
            resource["urn"],
            None if resource["type"].startswith(IDS_OF_CHANCE) else resource.get("id"),
            resource.get("protect"),
            resource.get("delete"),
            _without_chance(_without_ignored(resource.get("inputs"), resource.get("ignoreChanges") or [])),
        ]
        for resource in latest.get("resources", [])
    ]
    begun = [[step["type"], step["resource"]["urn"]] for step in latest.get("pending_operations") or []]
    return [*sorted(kept, key=str), *sorted(begun)]


def _without_ignored(inputs: Any, ignored: list[str]) -> Any:
    """The state keeps of these what was read last, and nothing is ever made of it."""
    left = copy.deepcopy(inputs)
    for path in ignored:
        *way, name = [int(part) if part.isdigit() else part for part in PARTS.findall(path)]
        with contextlib.suppress(KeyError, IndexError):
            place = left
            for step in way:
                place = place[step]
            place.pop(name)
    return left


def _without_chance(value: Any) -> Any:
    """Nothing is encrypted twice with the same text.

    That no default was filled in, the bridge notes of a machine that was read before, and leaves out of a new one.
    """
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if (key, item) != ("__defaults", [])}
        return {key: "" if key == "ciphertext" else _without_chance(item) for key, item in kept.items()}
    return [_without_chance(item) for item in value] if isinstance(value, list) else value


def _state(rack: Rack) -> Path:
    return rack.folder / "home" / "state"
