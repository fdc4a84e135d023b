"""Removes published images that are superseded, and never one that somebody's disk needs."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from deskyard.errors import SiteError
from deskyard.image.publish.draft import Image, remove
from deskyard.site.proxmox import listing, templates
from deskyard.site.proxmox.client import Client, quoted
from deskyard.site.proxmox.estate import read_estate
from deskyard.site.proxmox.task import finish, running
from deskyard.site.proxmox.templates import Template

# A draft of another machine whose publisher did nothing for so long is taken for dead.
DEAD_SECONDS = 3600

# `store:20000/base-20000-disk-0.qcow2/20100/vm-20100-disk-0.qcow2`, `store:base-20000-disk-0/vm-20100-disk-0`
_BASE = re.compile(r"\bbase-(\d+)-disk-\d+(?:\.\w+)?/")


def superseded(templates: Iterable[Template], image: str, current: str, keep: int) -> list[Template]:
    """The published templates of an image beyond the `keep` newest digests; the current one always stays."""
    mine = [template for template in templates if template.image == image and template.finished]
    newest: dict[str, int] = {}
    for template in mine:
        newest[template.digest] = max(newest.get(template.digest, 0), template.made)
    # The current one takes a place also while it is not yet there: a dry run says what the run does.
    others = sorted(set(newest) - {current}, key=lambda digest: (-newest[digest], digest))
    order = [current, *others]
    return sorted(template for template in mine if template.digest in order[keep:])


def doubles(templates: Iterable[Template], shared: bool) -> list[Template]:
    """Templates besides the one that counts: two publishers that died at once could leave them."""
    seen: set[tuple[str, ...]] = set()
    found = []
    for template in sorted(templates):
        place = (*template.key, "" if shared else template.node)
        if template.finished:
            found += [template] if place in seen else []
            seen.add(place)
    return found


def bases_in_use(volumes: Iterable[Mapping[str, Any]]) -> set[int]:
    """The templates whose disks are the base of somebody's disk, by the rows of a storage's content.

    A clone on thin LVM neither names its base nor needs it. Clones that the token may not see are no loss either:
    Proxmox VE itself refuses to remove their base.
    """
    found: set[int] = set()
    for row in volumes:
        found.update(int(number) for number in _BASE.findall(f"{row.get('volid')} {row.get('parent') or '-'}/"))
    return found


def is_dead(client: Client, draft: Template, now: int) -> bool:
    """Whether nobody works on a draft any more."""
    # Without tags it was just begun, or its publisher died in that moment: its name alone does not say when.
    return 0 < draft.made < now - DEAD_SECONDS and not running(client, draft.node, vmid=draft.vmid)


def prune(client: Client, image: Image, by: str, now: int, *, dry_run: bool) -> tuple[list[str], list[str]]:
    """Remove what is superseded; answers what went (or would go), and what stays because clones need it."""
    cluster = client.cluster
    rows = listing.resources(client)
    found, estate = templates.read(rows, cluster), read_estate(rows, cluster)
    left = [
        template
        for template in found
        if template.draft and template.image == image.name and template.digest != image.digest
    ]
    going = {
        *doubles(found, cluster.storages.of_templates in estate.shared),
        *superseded(found, image.name, image.digest, cluster.keep_images),
        *(draft for draft in left if draft.by == by or is_dead(client, draft, now)),
    }
    in_use = _in_use(client, {template.node for template in going})
    removed: list[str] = []
    kept: list[str] = []
    for template in sorted(going):
        gone = template.vmid not in in_use and (dry_run or _removed(client, template))
        (removed if gone else kept).append(f"{template.node}/{template.vmid}")
    drafts = {template.digest for template in found if template.draft and template not in going}
    nodes = estate.usable()[: 1 if cluster.storages.images in estate.shared else None]
    removed += _uploads(client, nodes, image.name, drafts, dry_run)
    return removed, kept


def _uploads(client: Client, nodes: Iterable[str], image: str, drafts: set[str], dry_run: bool) -> list[str]:
    """Remove the uploads of an image that no draft needs any more."""
    storage, gone = client.cluster.storages.images, []
    ours = re.compile(
        rf"{re.escape(storage)}:import/deskyard-{re.escape(image)}-([0-9a-f]{{16}})-[0-9a-f]{{12}}\.qcow2"
    )
    for node in nodes:
        for row in client.get(f"nodes/{node}/storage/{storage}/content", content="import"):
            named = ours.fullmatch(str(row["volid"]))
            if named is None or named[1] in drafts:
                continue
            gone.append(f"{node}/{row['volid']}")
            path = f"nodes/{node}/storage/{storage}/content/{quoted(row['volid'])}"
            if not dry_run:
                finish(client, client.delete(path))
    return gone


def _in_use(client: Client, nodes: Iterable[str]) -> set[int]:
    storage = client.cluster.storages.of_templates
    found: set[int] = set()
    for node in sorted(nodes):
        found |= bases_in_use(client.get(f"nodes/{node}/storage/{storage}/content", content="images"))
    return found


def _removed(client: Client, template: Template) -> bool:
    try:
        remove(client, template)
    except SiteError as error:
        if "in use" not in error.reason:
            raise
        return False
    return True
