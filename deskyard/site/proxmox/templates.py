"""Published images: templates of a cluster, known by their tags.

A template of an unfinished publication carries the tag `deskyard-draft` and is none for anybody but a publisher.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.model.proxmox import Cluster
from deskyard.plan.proxmox.system_tag import DIGEST_TAG, IMAGE_TAG
from deskyard.plan.proxmox.view import tags_of
from deskyard.site.proxmox.estate import read_estate

OURS = "deskyard-image"
DRAFT = "deskyard-draft"
# A draft that has no tags yet.
_BEGUN = re.compile(r"draft-(?P<by>[0-9a-z]+)-(?P<image>.+)-(?P<digest>[0-9a-z]+)")
_MOMENT, _BY = "made-", "by-"


@dataclass(frozen=True, order=True)
class Template:
    """A machine that holds an image: published, or a draft of one. `made` is in seconds since 1970."""

    node: str
    vmid: int
    image: str
    digest: str
    draft: bool
    template: bool
    made: int = 0
    by: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Which image it holds."""
        return self.image, self.digest

    @property
    def finished(self) -> bool:
        """Whether it is one for everybody."""
        return self.template and not self.draft


def tags(image: str, digest: str, *, made: int, by: str = "", draft: bool = False) -> str:
    """The tags of a template, as Proxmox VE keeps them: sorted, separated by semicolons."""
    names = {OURS, IMAGE_TAG + image, DIGEST_TAG + digest, f"{_MOMENT}{made}"}
    names |= {DRAFT, _BY + by} if draft else set()
    return ";".join(sorted(names))


def template_name(image: str, digest: str, *, by: str = "") -> str:
    """The name of a template in the list of machines; of a draft, if somebody makes it.

    A draft has its tags only when it is there, so its name says whose it is until then.
    """
    return f"draft-{by}-{image}-{digest}" if by else f"deskyard-{image}-{digest}"


def read(resources: Iterable[Mapping[str, Any]], cluster: Cluster) -> list[Template]:
    """Our templates and drafts among the rows of `cluster/resources`, by node and id."""
    found = [_read(row) for row in resources if row.get("type") == "qemu"]
    ids = cluster.vm_ids
    # A clone has its template's tags until it gets its own; what lies outside our ids is not ours to judge.
    ours = (template for template in found if template is not None and (template.draft or template.template))
    return sorted(template for template in ours if ids.first <= template.vmid <= ids.last)


def published(resources: Iterable[Mapping[str, Any]], cluster: Cluster) -> list[Template]:
    """The finished ones."""
    return [template for template in read(resources, cluster) if template.finished]


def by_node(found: Iterable[Template], image: str, digest: str) -> dict[str, int]:
    """Node -> id of its template of an image; of two, which two publishers that died at once could leave, the lower."""
    mine = (template for template in found if template.key == (image, digest))
    return {template.node: template.vmid for template in sorted(mine, reverse=True)}


def find(resources: Iterable[Mapping[str, Any]], cluster: Cluster, image: str, digest: str) -> dict[str, int]:
    """The template of an image that each node clones: node -> VM id; nothing for a node that has none.

    Where the storage of the templates is shared, one template serves all nodes; `cluster/resources` says where it lies.
    """
    rows = list(resources)
    found, estate = by_node(published(rows, cluster), image, digest), read_estate(rows, cluster)
    if found and cluster.storages.of_templates in estate.shared:
        first = found[min(found)]
        return {node: found.get(node, first) for node in (*estate.online, *estate.offline)}
    return found


def _read(row: Mapping[str, Any]) -> Template | None:
    names = tags_of(row)
    begun = _BEGUN.fullmatch(str(row.get("name") or ""))
    if begun is not None and not names:
        return Template(
            str(row["node"]), int(row["vmid"]), begun["image"], begun["digest"], True, False, 0, begun["by"]
        )
    image, digest = _after(IMAGE_TAG, names), _after(DIGEST_TAG, names)
    if OURS not in names or image is None or digest is None:
        return None
    moment = _after(_MOMENT, names) or ""
    return Template(
        node=str(row["node"]),
        vmid=int(row["vmid"]),
        image=image,
        digest=digest,
        draft=DRAFT in names,
        template=int(row.get("template") or 0) == 1,
        made=int(moment) if moment.isdecimal() else 0,
        by=_after(_BY, names) or "",
    )


def _after(start: str, names: Iterable[str]) -> str | None:
    found = [name.removeprefix(start) for name in names if name.startswith(start)]
    return found[0] if len(found) == 1 else None
