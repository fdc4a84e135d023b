"""A site on the peer: its file, its token, its zone and its published templates, and the stacks of its workspaces."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import stacks.program
from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.engine import on_proxmox
from deskyard.engine.change import Change
from deskyard.engine.stack import WorkspaceStack
from deskyard.host.places import places, tree
from deskyard.image.store import store
from deskyard.model.site import Site
from deskyard.plan.image.image import read_image
from deskyard.plan.proxmox.view import image_pool_of
from deskyard.site.proxmox.doctor.privileges import roles
from deskyard.workspace import readiness, workspace
from tests.proxmox.site_on_peer import USER, VERSION
from tests.support.pve import Client, Peer
from tests.support.pve.access import Grant

SITE = "rack"
IMAGES_POOL = image_pool_of(SITE)
DIGESTS = {"gateway": "gateway0digest", "desktop": "desktop0digest"}
SECRET_CANARY = "canary-5f0c-token-secret"
WITH_GUESTS, WAIT = stacks.program._on_cluster, readiness.wait
# The workspace without the gateway's settings: the peer's machines hold no guest that could hear them.
without_guests = partial(WITH_GUESTS, with_settings=False)


class Rack:
    """One site on one peer, with a folder of stack files and a state of its own."""

    def __init__(self, peer: Peer, root: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.peer, self.root, self.folder = peer, root, folder
        self.stacks = folder / "stacks"
        (self.stacks / "sites").mkdir(parents=True)
        self.token = peer.fake.token(privsep=False)
        peer.fake.apitokens["deskyard@pve!test"] = SECRET_CANARY
        self.token_file = folder / "token"
        self.token_file.write_text(f"deskyard@pve!test={SECRET_CANARY}\n")
        self.token_file.chmod(0o600)
        self.site()
        self._grant()
        # Programs of the machine serve all tests.
        (folder / "home" / "cache").mkdir(parents=True)
        (folder / "home" / "cache" / "toolchain").symlink_to(places().toolchain)
        self.enter(monkeypatch)
        self._templates()
        self._zone()
        root.ask("PUT", "/cluster/firewall/options", enable=1)

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process work on the site."""
        monkeypatch.setenv("DESKYARD_HOME", str(self.folder / "home"))
        monkeypatch.setenv("DESKYARD_STACKS", str(self.stacks))
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "test")
        for place, name, value in stand_ins():
            monkeypatch.setattr(place, name, value)

    def site(
        self, certificate: dict[str, str] | None = None, tiers: dict[str, Any] | None = None, **changes: Any
    ) -> None:
        """Write the site's file; `changes` are those of the cluster."""
        cluster = {
            "endpoint": self.peer.endpoint,
            "ca": str(self.peer.certificates.authority),
            "token_file": str(self.token_file),
            "uplink": {
                "network": "192.0.2.0/24",
                "router": "192.0.2.1",
                "first": "192.0.2.10",
                "last": "192.0.2.99",
                "resolvers": ["192.0.2.2"],
            },
            "zone": {"kind": "vxlan", "peers": ["198.51.100.1", "198.51.100.2"]},
            **changes,
        }
        values = {"name": SITE, "backend": "proxmox", "domain": "desks.example.org", "certificate": certificate}
        text = yaml.safe_dump({**values, "proxmox": cluster, "tiers": tiers or {}})
        (self.stacks / "sites" / f"{SITE}.yaml").write_text(text)

    def let_guests_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Somebody is in the machines: gateways are told their settings, and routes are waited for."""
        monkeypatch.setattr(stacks.program, "_on_cluster", WITH_GUESTS)
        monkeypatch.setattr(readiness, "wait", WAIT)

    def declare(self, name: str, *desktops: str, **changes: Any) -> WorkspaceStack:
        """Write a workspace's file; a desktop is NAME or NAME:TIER. Answers its stack."""
        number = sum(ord(letter) * (index + 1) for index, letter in enumerate(name)) % 250
        wanted = [dict(zip(("name", "tier"), desktop.split(":"), strict=False)) for desktop in desktops]
        values = {"site": SITE, "network": f"10.80.{number}.0/24", "desktops": wanted, **changes}
        path = self.stacks / f"Pulumi.{name}.yaml"
        kept = yaml.safe_load(path.read_text()) if path.exists() else {}
        kept["config"] = {f"deskyard:{key}": value for key, value in values.items()}
        path.write_text(yaml.safe_dump(kept))
        return WorkspaceStack(name)

    def plan(self, name: str) -> Declared:
        """The Plan on what the cluster shows now."""
        return declaration.read(name)

    def up(self, name: str, *desktops: str, remove: Sequence[str] = (), **changes: Any) -> WorkspaceStack:
        """Declare and bring up."""
        stack = self.declare(name, *desktops, **changes)
        workspace.up(name, remove=remove)
        return stack

    def forget(self, name: str) -> None:
        """Lose the state of a workspace."""
        for path in (self.folder / "home" / "state" / "pulumi" / "backend").rglob(f"{name}.json*"):
            path.unlink()

    def publish(self, node: str, vm_id: int, image: str, digest: str) -> None:
        """Leave a template as publishing an image does."""
        self.root.finish(
            "POST",
            f"/nodes/{node}/qemu",
            vmid=vm_id,
            name=f"deskyard-{image}-{digest}",
            pool=IMAGES_POOL,
            tags=f"deskyard-image;digest-{digest};image-{image}",
            scsi0="local-lvm:4",
            scsihw="virtio-scsi-single",
            agent="1",
            memory="512",
            serial0="socket",
        )
        assert self.root.finish("POST", f"/nodes/{node}/qemu/{vm_id}/template") == "OK"

    def node_path(self, name: str, machine: str) -> str:
        """Where the API has a machine of a workspace."""
        vm = self.machines(name)[machine]
        return f"/nodes/{vm.node}/qemu/{vm.vmid}"

    def machines(self, name: str) -> dict[str, Any]:
        """What the peer holds of a workspace's machines, by their names."""
        pool = f"deskyard.{SITE}.{name}"
        members = self.peer.fake.pools.get(pool, set())
        return {vm.config["name"].partition(".")[0]: vm for vm in self.peer.fake.vms if vm.vmid in members}

    def snapshot(self, name: str) -> str:
        """Everything that the peer holds of a workspace's machines, to be compared."""
        fake = self.peer.fake
        found = self.machines(name)
        guests = {machine: fake._fw()["guests"].get(vm.vmid) for machine, vm in found.items()}
        return json.dumps(
            [{n: [vm.vmid, vm.node, vm.status, vm.config] for n, vm in found.items()}, guests], default=str
        )

    def _templates(self) -> None:
        self.root.ask("POST", "/pools", poolid=IMAGES_POOL)
        for number, node in enumerate(sorted(self.peer.fake.nodes)):
            for offset, (image, digest) in enumerate(DIGESTS.items()):
                self.publish(node, 20_000 + number * 10 + offset, image, digest)

    def _grant(self) -> None:
        """The token may do what the table of privileges says, and nothing else."""
        cluster = Site.read(self.stacks / "sites" / f"{SITE}.yaml").cluster
        made = roles(cluster)
        self.peer.fake.roles.update({role.name: set(role.names(VERSION)) for role in made})
        self.peer.fake.acl[USER] = [Grant(role.path, role.name, role.propagate) for role in made]

    def _zone(self) -> None:
        self.root.ask(
            "POST", "/cluster/sdn/zones", zone="deskyard", type="vxlan", peers="198.51.100.1,198.51.100.2", mtu=1450
        )
        self.root.finish("PUT", "/cluster/sdn")


def stand_ins() -> list[tuple[Any, str, Any]]:
    """What every process that works on the peer has in the place of something else."""
    return [
        (store, "digests", lambda name: [DIGESTS[read_image(tree(), name).name]]),
        # The peer's machines hold no guests: nobody hears the gateway's settings, and no route ever answers.
        (stacks.program, "_on_cluster", without_guests),
        (readiness, "wait", lambda plan, **_: {"ready": False, "desktops": {}}),
        (on_proxmox, "PAUSE_SECONDS", 0.1),
    ]


def changed(steps: list[Change]) -> list[tuple[str, str]]:
    """Operation and name of what changes something."""
    return [(step.operation, step.name) for step in steps if step.changes_something]


@contextmanager
def watched(peer: Peer) -> Iterator[list[Any]]:
    """The calls that were made while the block lasted."""
    peer.fake.calls.clear()
    seen: list[Any] = []
    yield seen
    seen.extend(peer.fake.calls)
