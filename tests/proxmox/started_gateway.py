"""A gateway's machine that has been started and was told nothing yet, without an engine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from deskyard.plan.account import MANAGER
from deskyard.plan.proxmox.workspace import VmPlan
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.files import read_site
from deskyard.site.management_key import public_key
from deskyard.site.proxmox import agent
from deskyard.site.proxmox.client import Client, connect
from deskyard.site.proxmox.kinds import gateway_settings as on_cluster
from deskyard.site.proxmox.kinds.gateway_settings import ClusterGatewaySettingsKind
from deskyard.site.resource import gateway_settings
from deskyard.site.resource.cancellation import CANCELLATION
from deskyard.site.ssh_link import SshLink
from tests.proxmox.inhabited import Inhabitants, inhabit
from tests.proxmox.rack import SITE, Rack
from tests.support.gateway_door import LINK
from tests.support.pve.inside import System

# What a gateway is asked for, in this order, where the site's own authority signs.
SETTLING = ["apply", "csr", "certificate", LINK]
BOOT_SECONDS = 120.0


@dataclass
class Gateway:
    """A gateway's machine as the stack makes it, before it was told anything."""

    rack: Rack
    plan: WorkspacePlan
    vm: VmPlan
    inhabitants: Inhabitants
    client: Client

    @property
    def system(self) -> System:
        """What is inside."""
        return self.inhabitants.systems[self.vm.owner.vm_name]

    @property
    def commands(self) -> list[str]:
        """What its program was asked."""
        return self.inhabitants.program(self.vm.owner.vm_name).commands()

    @property
    def ssh(self) -> SshLink:
        """The way to it."""
        return SshLink(SITE, self.plan.name)

    def inputs(self, **changes: Any) -> dict[str, Any]:
        """What the stack gives the resource."""
        settings = asdict(self.plan.gateway.settings)
        given = {"site": SITE, "workspace": self.plan.name, "vm_id": self.vm.vm_id, "start": "1"}
        return {**given, "domain_name": "desks.example.org", "settings": settings, "certificate": None, **changes}

    def tell(self, **changes: Any) -> dict[str, Any]:
        """Create the resource; its outputs."""
        return ClusterGatewaySettingsKind().create(self.link, self.inputs(**changes))[1]

    def link(self, _: str) -> Client:
        """The API, as the backend finds it."""
        return self.client


def start(rack: Rack, vm: VmPlan, **more: str) -> None:
    """Make and start the machine with what cloud-init is told, and more."""
    if vm.owner.pool not in rack.peer.fake.pools:
        rack.root.ask("POST", "/pools", poolid=vm.owner.pool)
    nics = {f"net{number}": f"virtio={nic.mac},bridge=vmbr0" for number, nic in enumerate(vm.nics)}
    first_boot = {f"ipconfig{number}": f"ip={nic.config}" for number, nic in enumerate(vm.nics)}
    first_boot |= {"ciuser": MANAGER, "sshkeys": quote(public_key(SITE), safe="")}
    tags = ";".join(vm.tags)
    made = {"vmid": vm.vm_id, "name": vm.owner.vm_name, "pool": vm.owner.pool, "tags": tags, "agent": "1"}
    assert rack.root.finish("POST", f"/nodes/{vm.node}/qemu", **made, **nics, **first_boot, **more) == "OK"
    assert rack.root.finish("POST", f"/nodes/{vm.node}/qemu/{vm.vm_id}/status/start") == "OK"


@contextmanager
def started(rack: Rack, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """A gateway that has just been started; pauses are short ones."""
    quick = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: time.sleep(seconds / 20))
    monkeypatch.setattr(agent, "time", quick)
    monkeypatch.setattr(CANCELLATION, "pause", lambda seconds: time.sleep(seconds / 200))
    for module in (gateway_settings, on_cluster):
        monkeypatch.setattr(module, "BOOT_SECONDS", BOOT_SECONDS)
    rack.declare("lab", "dev1", "dev2")
    declared = rack.plan("lab")
    assert declared.on_cluster is not None
    vm = declared.on_cluster.gateway
    start(rack, vm)
    client = connect(read_site(SITE))
    sleep = client.sleep
    client.sleep = lambda seconds: sleep(seconds / 200)
    with inhabit(rack.peer, folder, monkeypatch) as inhabitants:
        yield Gateway(rack, declared.plan, vm, inhabitants, client)
