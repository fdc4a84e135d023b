"""A template while it is made: a machine under a draft's name and tags, finished step by step.

Each step looks first at what is there, so a draft that somebody began is finished or begun anew, and each looks
afterwards, because a task that says OK has been seen to leave nothing behind.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.proxmox.view import tags_of
from deskyard.site.proxmox.client import ApiError, Client
from deskyard.site.proxmox.machine import CPU, DISK, OS_TYPE, vm_path
from deskyard.site.proxmox.task import finish, running, wait_removal, wait_task
from deskyard.site.proxmox.templates import Template, tags, template_name

IMPORT_SECONDS = 3600.0
# What a clone takes over unless it says otherwise: no NIC, no CD, no cloud-init drive, and a console to read.
HARDWARE: Mapping[str, object] = {
    "ostype": OS_TYPE,
    "cpu": CPU,
    "cores": 1,
    "memory": 1024,
    "scsihw": "virtio-scsi-single",
    "serial0": "socket",
    "tablet": False,
    "onboot": False,
}
# Storages round a disk up to their extents.
ROUNDING = 64 << 20
DISK_OPTIONS = "discard=on,iothread=1,ssd=1"


@dataclass(frozen=True)
class Image:
    """The image that a template is to hold; `bytes` is the size of its disk as a guest sees it."""

    name: str
    digest: str
    bytes: int
    agent: bool


@dataclass(frozen=True)
class Draft:
    """A draft on a node, and where its disk belongs."""

    client: Client
    node: str
    vmid: int
    storage: str
    image: Image

    @property
    def path(self) -> str:
        """The machine in the API."""
        return vm_path(self.node, self.vmid)

    def create(self, pool: str, by: str, moment: int) -> bool:
        """Make the machine, without a disk; False if somebody else has this id.

        From qemu-server 9.2.0 on, tags given here are judged before the machine is in its pool: the token, whose power
        is over pools, may only set them afterwards (PVE/API2/Qemu.pm, assert_tag_permissions).
        """
        name, digest = self.image.name, self.image.digest
        try:
            upid = self.client.post(
                f"nodes/{self.node}/qemu",
                vmid=self.vmid,
                name=template_name(name, digest, by=by),
                pool=pool,
                agent=f"enabled={int(self.image.agent)}",
                **HARDWARE,
            )
            wait_task(self.client, upid)
        except SiteError as error:
            if _is_taken(error) or (isinstance(error, ApiError) and error.unsure):
                return False
            raise
        self.take_over(by, moment)
        return True

    def take_over(self, by: str, moment: int) -> None:
        """Put one's own mark on a draft."""
        name, digest = self.image.name, self.image.digest
        marks = {"name": template_name(name, digest, by=by), "tags": tags(name, digest, made=moment, by=by, draft=True)}
        self.client.put(f"{self.path}/config", **marks)

    def settle(self) -> Mapping[str, Any]:
        """Wait for what still happens to the machine; its configuration then."""
        for upid in running(self.client, self.node, vmid=self.vmid):
            try:
                wait_task(self.client, upid, IMPORT_SECONDS)
            except SiteError as error:
                # How it ended is seen in what is there; only a task that does not end is an error.
                if upid in running(self.client, self.node, vmid=self.vmid):
                    raise error
        config = self.config()
        if config.get("lock"):
            reason = f"is locked ({config['lock']}) and no task of it runs"
            raise SiteError("draft", self.vmid, reason, f"on node {self.node}, run: qm unlock {self.vmid}")
        return config

    def has_disk(self) -> bool:
        """Whether it has the image's disk; raises `SiteError` if it names a disk that is not there."""
        config = self.config()
        if DISK not in config:
            return False
        volume = str(config[DISK]).partition(",")[0]
        storage = volume.partition(":")[0]
        rows = self.client.get(f"nodes/{self.node}/storage/{storage}/content", content="images", vmid=self.vmid)
        sizes = [row.get("size") or 0 for row in rows if row.get("volid") == volume]
        if self.storage != storage or len(sizes) != 1 or not 0 <= int(sizes[0]) - self.image.bytes < ROUNDING:
            what = f"has {sizes[0]} bytes" if sizes else "is not there"
            reason = f"disk {volume} {what}, although its import ended well; {self.image.bytes} are expected"
            raise SiteError("draft", self.vmid, reason, f"check storage {storage} of node {self.node}, run it again")
        return True

    def import_disk(self, volume: str) -> None:
        """Give it a disk made from an upload."""
        value = f"{self.storage}:0,import-from={volume},{DISK_OPTIONS}"
        upid = self.client.post(f"{self.path}/config", **{DISK: value, "boot": f"order={DISK}"})
        finish(self.client, upid, IMPORT_SECONDS)
        if not self.has_disk():
            reason = f"has no disk, although its import from {volume} ended well"
            raise SiteError(
                "draft", self.vmid, reason, f"check storage {self.storage} of node {self.node}, run it again"
            )

    def convert(self) -> None:
        """Make it a template, also one that stopped halfway: marked, but with its disk not yet a base."""
        config = self.config()
        marked = int(config.get("template") or 0) == 1
        if not marked or not _is_base(config):
            finish(self.client, self.client.post(f"{self.path}/template", disk=DISK if marked else None))
        config = self.config()
        if int(config.get("template") or 0) != 1 or not _is_base(config):
            raise SiteError("draft", self.vmid, "did not become a template", "look at its task log, run it again")
        self.has_disk()

    def publish(self, moment: int) -> None:
        """Let everybody see it as the image: its name and tags, in one call."""
        name, digest = self.image.name, self.image.digest
        wanted = {"name": template_name(name, digest), "tags": tags(name, digest, made=moment)}
        self.client.put(f"{self.path}/config", **wanted)
        config = self.config()
        if config.get("name") != wanted["name"] or set(tags_of(config)) != set(tags_of(wanted)):
            reason = f"was not renamed and tagged as told: {config.get('name')}, {config.get('tags')}"
            raise SiteError("draft", self.vmid, reason, "look for who else changes it, run it again")

    def config(self) -> Mapping[str, Any]:
        """The machine's configuration."""
        found: Mapping[str, Any] = self.client.get(f"{self.path}/config")
        return found


def remove(client: Client, template: Template) -> None:
    """Remove a template or draft with its disks."""
    path = vm_path(template.node, template.vmid)
    wait_removal(client, client.delete(path, purge=True, **{"destroy-unreferenced-disks": True}))


def _is_taken(error: SiteError) -> bool:
    return re.search(r"already exists|config file already exists", error.reason) is not None


def _is_base(config: Mapping[str, Any]) -> bool:
    return re.search(r"[:/]base-\d+-", str(config.get(DISK, ""))) is not None
