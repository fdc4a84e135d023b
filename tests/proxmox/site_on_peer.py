"""A site on the peer, reached with a token that holds exactly what the table of privileges says."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from deskyard.image.store.store import BuiltImage
from deskyard.model.site import Site
from deskyard.site.proxmox.client import Client, Pace
from deskyard.site.proxmox.doctor.privileges import roles
from deskyard.site.proxmox.token import read_token
from tests.support.pve.access import Grant
from tests.support.pve.peer import Peer
from tests.unit.site.stub import site_values

USER = "deskyard@pve"
VERSION = (9, 0)
DIGEST = "0123456789abcdef"
DISK_BYTES = 1 << 30


class Rack:
    """A peer and a site that describes it."""

    def __init__(self, peer: Peer, folder: Path, **cluster: Any) -> None:
        self.peer, self.fake = peer, peer.fake
        token = folder / "token"
        token.write_text(peer.fake.token(USER, "site"))
        token.chmod(0o600)
        values = {"ca": str(peer.certificates.authority), "token_file": str(token), **cluster}
        self.site = Site.check(site_values(peer.endpoint, **values), "rack.yaml")
        assert self.site.proxmox is not None
        self.cluster = self.site.proxmox
        self.grant()

    def grant(self) -> None:
        """Give the token's user the roles of the table, on their paths."""
        made = roles(self.cluster)
        self.fake.roles.update({role.name: set(role.names(VERSION)) for role in made})
        self.fake.acl[USER] = [Grant(role.path, role.name, role.propagate) for role in made]

    def client(self, **pace: float) -> Client:
        """A client that does not sleep long."""
        given: dict[str, Any] = {"attempts": 3, "first_pause": 0.01, "read": 20, "connect": 20, "upload": 20, **pace}
        client = Client(self.cluster, read_token(self.cluster), Pace(**given))
        sleep = client.sleep
        client.sleep = lambda seconds: sleep(min(seconds, 0.02))
        return client

    def volumes(self, storage: str) -> set[str]:
        """The names of what lies in a storage."""
        return set(self.fake.storages[storage]["volumes"])


def built_image(folder: Path, digest: str = DIGEST, name: str = "desktop") -> BuiltImage:
    """A small, true qcow2 file with a manifest, as a build leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = folder / f"{name}-{digest}.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), str(DISK_BYTES)], check=True, timeout=60)
    checksum = hashlib.sha256(disk.read_bytes()).hexdigest()
    manifest: dict[str, Any] = {
        "name": name,
        "version": "0.1.0",
        "digest": digest,
        "sha256": checksum,
        "built_at": "2026-01-01T10:00:00+00:00",
        "git_commit": None,
        "packages": {"qemu-guest-agent": "1"},
    }
    return BuiltImage(name, digest, disk, json.loads(json.dumps(manifest)))
