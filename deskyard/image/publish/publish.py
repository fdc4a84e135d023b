"""Publishes a built image to a cluster: a template on every node that needs one, finished or not seen."""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.at_once import together
from deskyard.host.deadline import Deadline
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import Timings, say
from deskyard.host.secret_file import write_secret
from deskyard.image.publish.draft import Draft, Image, remove
from deskyard.image.publish.retention import is_dead, prune
from deskyard.image.publish.upload import DiskFile, bring, virtual_bytes
from deskyard.image.store import seal, store
from deskyard.image.store.store import BuiltImage
from deskyard.model.proxmox import Cluster
from deskyard.model.site import Site
from deskyard.plan.proxmox.view import image_pool_of
from deskyard.site.proxmox import listing, templates
from deskyard.site.proxmox.client import Client, connect
from deskyard.site.proxmox.estate import Estate, read_estate
from deskyard.site.proxmox.machine import ensure_pool
from deskyard.site.proxmox.task import running
from deskyard.site.proxmox.templates import Template

AGENT_PACKAGE = "qemu-guest-agent"
WAIT_SECONDS = 3600.0
MOST_REFUSED = 50
REPORT_EACH = 256 << 20


@dataclass(frozen=True)
class Publication:
    """The outcome of publishing, or of a `dry_run`. Templates by node; what was removed as `node/id`."""

    image: str
    digest: str
    templates: Mapping[str, int]
    made: tuple[str, ...]
    removed: tuple[str, ...]
    kept_in_use: tuple[str, ...]
    dry_run: bool

    @property
    def changed(self) -> bool:
        """Whether anything was or would be changed."""
        return bool(self.made or self.removed)


def publish(name: str, site: Site, *, key_file: Path | None = None, dry_run: bool = False) -> Publication:
    """Publish the image built from the current sources; what is published already is left as it is.

    Raises `ConfigError` before the cluster is asked if the image is not what the holder of the key signed.
    """
    built = store.require(name)
    seal.require_whole(f"{built.name}@{built.digest}", key_file)
    # A draft of this machine that nobody works on is then one that was left behind.
    with alone(f"publish-{site.name}"):
        return Publisher(built, site, connect(site), _publisher_id()).run(dry_run)


def listed(site: Site) -> list[dict[str, Any]]:
    """List what is published at a site, drafts included, for people and programs."""
    client = connect(site)
    return [asdict(template) for template in templates.read(listing.resources(client), client.cluster)]


@dataclass
class Publisher:
    """Publishes one image at one site; `by` is put on drafts, so that it knows its own."""

    built: BuiltImage
    site: Site
    client: Client
    by: str
    timings: Timings = field(default_factory=Timings)

    def __post_init__(self) -> None:
        packages = self.built.manifest.get("packages", {})
        size = virtual_bytes(self.built.disk)
        self.image = Image(self.built.name, self.built.digest, size, agent=AGENT_PACKAGE in packages)
        checksum = str(self.built.manifest["sha256"])
        name = f"deskyard-{self.built.name}-{self.built.digest}-{checksum[:12]}.qcow2"
        self.file = DiskFile(self.built.disk, self.built.disk.stat().st_size, checksum, name)

    @property
    def cluster(self) -> Cluster:
        return self.client.cluster

    @property
    def storage(self) -> str:
        """Where the disks of templates lie."""
        return self.cluster.storages.of_templates

    def run(self, dry_run: bool = False) -> Publication:
        """Do all that is left to do."""
        rows = self._resources()
        estate = read_estate(rows, self.cluster)
        missing = self._missing(rows, estate)
        if not dry_run and missing:
            self._make(missing, estate)
        removed, in_use = prune(self.client, self.image, self.by, self._now(), dry_run=dry_run)
        return Publication(
            image=self.image.name,
            digest=self.image.digest,
            templates=templates.find(self._resources(), self.cluster, self.image.name, self.image.digest),
            made=tuple(missing),
            removed=tuple(removed),
            kept_in_use=tuple(in_use),
            dry_run=dry_run,
        )

    def _resources(self) -> list[Mapping[str, Any]]:
        return [*listing.resources(self.client)]

    def _missing(self, rows: list[Mapping[str, Any]], estate: Estate) -> list[str]:
        """The nodes that lack the template: each, or where its storage is shared one for all."""
        have = self._published(rows)
        usable = estate.usable()
        if self.storage not in estate.shared:
            return [node for node in usable if node not in have]
        if have:
            return []
        drafts = [
            template.node
            for template in templates.read(rows, self.cluster)
            if template.draft and template.key == self._key
        ]
        return [next((node for node in drafts if node in usable), usable[0])]

    @property
    def _key(self) -> tuple[str, str]:
        return self.image.name, self.image.digest

    # Claims: a draft is made before anything is sent, so that two publishers do not write the same file at once.

    def _make(self, nodes: list[str], estate: Estate) -> None:
        ensure_pool(self.client, self._pool, "Images that Deskyard published")
        drafts = [draft for node in nodes if (draft := self._claim(node)) is not None]
        self._upload(drafts, estate)
        work = {f"template on {draft.node}": partial(self._finish, draft) for draft in drafts}
        if work:
            together(work, self.timings)

    @property
    def _pool(self) -> str:
        return image_pool_of(self.site.name)

    def _claim(self, node: str) -> Draft | None:
        """A draft on a node that is ours; nothing if somebody published there meanwhile."""
        deadline, refused = Deadline(WAIT_SECONDS), set[int]()
        while True:
            rows = self._resources()
            here = [
                template
                for template in templates.read(rows, self.cluster)
                if template.node == node and template.key == self._key
            ]
            if any(not template.draft for template in here):
                return None
            # The lowest id counts, for every publisher; a draft of ours behind another's gives way.
            for other in here[1:]:
                if other.by == self.by:
                    remove(self.client, other)
            first = here[0] if here else None
            if first is None:
                self._create(node, rows, refused)
            elif first.by == self.by:
                if not first.made:
                    self._draft(first).take_over(self.by, self._now())
                return self._draft(first)
            elif self._is_dead(first):
                say(f"    draft {first.vmid} on {node} was left behind: taking it over")
                self._draft(first).take_over(self.by, self._now())
            elif deadline.is_over:
                reason = f"another publisher ({first.by}) has not finished it for {WAIT_SECONDS:.0f} s"
                remedy = f"wait for it, or remove that machine on node {node} if its publisher is gone"
                raise SiteError("draft", first.vmid, reason, remedy)
            else:
                self.client.sleep(2)

    def _create(self, node: str, rows: list[Mapping[str, Any]], refused: set[int]) -> None:
        """Try the next free id; one that is refused, or whose answer was lost, is not tried again."""
        ids = self.cluster.vm_ids
        taken = {int(row["vmid"]) for row in rows if "vmid" in row} | refused
        vmid = next((number for number in range(ids.first, ids.last + 1) if number not in taken), None)
        if vmid is None or len(refused) > MOST_REFUSED:
            reason = f"no id from {ids.first} to {ids.last} is free, or the token does not see who has them"
            raise SiteError("proxmox.vm_ids", None, reason, "look with ./inv site.check, then choose another range")
        draft = Draft(self.client, node, vmid, self.storage, self.image)
        if not draft.create(self._pool, self.by, self._now()):
            refused.add(vmid)

    def _is_dead(self, draft: Template) -> bool:
        return is_dead(self.client, draft, self._now())

    def _draft(self, template: Template) -> Draft:
        return Draft(self.client, template.node, template.vmid, self.storage, self.image)

    def _now(self) -> int:
        """The cluster's time: clocks of publishers differ."""
        return int(self.client.call("GET", "version", {}).date or time.time())

    # Work

    def _upload(self, drafts: list[Draft], estate: Estate) -> None:
        """Send the file once where its storage is shared, else to each node."""
        nodes = [draft.node for draft in drafts if not self._has_disk(draft)]
        nodes = nodes[: 1 if self.cluster.storages.images in estate.shared else None]
        if nodes:
            together({f"upload to {node}": partial(self._bring, node) for node in nodes}, self.timings)

    def _has_disk(self, draft: Draft) -> bool:
        draft.settle()
        try:
            return draft.has_disk()
        except SiteError:
            return False

    def _bring(self, node: str) -> None:
        bring(self.client, node, self.cluster.storages.images, self.file, _reporter(self.file.size))

    def _finish(self, draft: Draft) -> None:
        draft.settle()
        try:
            if not draft.has_disk():
                draft.import_disk(f"{self.cluster.storages.images}:{self.file.volume}")
            draft.convert()
        except SiteError:
            self._drop_broken(draft)
            raise
        if draft.node in self._published(self._resources()):
            # Two publishers who began in the same moment: the other was faster.
            remove(self.client, Template(draft.node, draft.vmid, *self._key, draft=True, template=True))
        else:
            draft.publish(self._now())

    def _published(self, rows: list[Mapping[str, Any]]) -> dict[str, int]:
        """Node -> id of the finished template."""
        return templates.by_node(templates.published(rows, self.cluster), *self._key)

    def _drop_broken(self, draft: Draft) -> None:
        """Remove a draft whose disk came to nothing; one that something still happens to is kept for the next run."""
        try:
            if not running(self.client, draft.node, vmid=draft.vmid):
                remove(self.client, Template(draft.node, draft.vmid, *self._key, draft=True, template=False))
        except SiteError as error:
            say(f"    draft {draft.vmid} on {draft.node} stays until the next run: {error.reason.splitlines()[0]}")


def _publisher_id() -> str:
    """The id that tells this machine's drafts from another's; random, made once."""
    path = places().state / "publisher"
    with alone("publisher"):
        if not path.exists():
            write_secret(path, uuid.uuid4().hex[:12].encode())
        return path.read_text().strip()


def _reporter(size: int) -> Callable[[int], None]:
    said = 0

    def report(sent: int) -> None:
        nonlocal said
        if sent - said >= REPORT_EACH:
            said = sent
            say(f"    {sent * 100 // size} % of {size >> 20} MiB sent")

    return report
