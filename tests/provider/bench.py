"""A connection to the real libvirt, and what tests make over it."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libvirt

from deskyard.host.vm.accelerator import accelerator
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.network import FilterKind, NetworkKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values

PREFIX = f"deskyard-test-{os.getpid()}"
MAC = "52:54:00:fe:00:01"
GATEWAY_MAC = "52:54:00:0f:0f:01"


@dataclass
class Bench:
    """A connection, and what was made over it, removed at the end."""

    link: Any
    folder: Path

    def __post_init__(self) -> None:
        self.made: list[tuple[Kind[Any], str, Values]] = []

    def make(self, kind: Kind[Any], inputs: Values) -> Any:
        """Create a thing; its state."""
        identity, outputs = kind.create(self.link, inputs)
        state = {**inputs, **outputs}
        self.made.append((kind, identity, state))
        return state

    def network(self) -> Any:
        """A workspace network."""
        bridge = f"dyt{os.getpid() % 10_000_000}"
        inputs = {"name": f"{PREFIX}-net", "bridge": bridge, "cidr": "10.99.1.0/25", "host_address": None}
        return self.make(NetworkKind(), inputs)

    def filter(self) -> Any:
        """A desktop's filter."""
        gateway = {"gateway_mac": GATEWAY_MAC, "gateway_address": "10.99.1.1"}
        return self.make(FilterKind(), {"name": f"{PREFIX}-filter", "kind": "desktop", **gateway})

    def disk(self, size_gib: int = 1) -> Any:
        """A disk on an empty image."""
        source = self.folder / "image.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", source, "64M"], check=True)
        image = {"image": PREFIX, "digest": "0123", "source": str(source), "size_gib": size_gib}
        return self.make(VolumeKind(), {"name": f"{PREFIX}.qcow2", **image})

    def home(self) -> Any:
        """A blank disk."""
        return self.make(VolumeKind(), {"name": f"{PREFIX}.home.qcow2", "size_gib": 1})

    def seed(self) -> Any:
        """A seed."""
        network = {"version": 2, "ethernets": {"workspace": {"dhcp4": True}}}
        documents = {"meta_data": {"instance-id": "x"}, "user_data": {"hostname": "x"}, "network_config": network}
        return self.make(SeedKind(), {"name": f"{PREFIX}-seed.iso", **documents})

    def machine(self) -> Any:
        """A machine with everything it needs; nothing boots in it."""
        nic = {"network": self.network()["name"], "filter": self.filter()["name"]}
        inputs = {
            "name": PREFIX,
            "machine_uuid": "0f3c1e52-8a47-4c1b-9d0e-2b6a5f7c8d91",
            "vcpus": 1,
            "memory_mib": 128,
            "accelerator": accelerator("auto"),
            "disk": self.disk()["path"],
            "home": self.home()["path"],
            "seed": self.seed()["path"],
            "interfaces": [{"mac": MAC, **nic, "address": "10.99.1.20", "isolated": True}],
        }
        return self.make(DomainKind(), inputs)

    def kill(self) -> None:
        """End the machine's QEMU as a fault would; only that of this test's machine."""
        os.kill(int(Path(f"/run/libvirt/qemu/{PREFIX}.pid").read_text()), signal.SIGKILL)

    def clean(self) -> None:
        """Remove all, last made first; the empty guest hears no request to shut down."""
        for domain in self.link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            if domain.name() == PREFIX:
                domain.destroy()
        for kind, identity, state in reversed(self.made):
            kind.delete(self.link, identity, state)
