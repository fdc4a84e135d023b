"""Templates are known by their tags."""

from collections.abc import Mapping

from deskyard.model.proxmox import Cluster
from deskyard.model.site import Site
from deskyard.site.proxmox import templates
from tests.unit.site.stub import site_values

DIGEST = "0123456789abcdef"


def row(node: str, vmid: int, tags: str, template: object = 1) -> dict[str, object]:
    return {"type": "qemu", "node": node, "vmid": vmid, "name": f"vm{vmid}", "tags": tags, "template": template}


PUBLISHED = templates.tags("desktop", DIGEST, made=7)


def cluster() -> Cluster:
    return Site.check(site_values("https://192.0.2.2:8006"), "site.yaml").cluster


def test_a_draft_is_known_by_its_name_until_it_has_tags() -> None:
    name = templates.template_name("agent-desk", DIGEST, by="0a1b")
    begun = row("pve1", 59_990, "") | {"name": name}
    found = templates.read([begun, row("pve2", 59_991, "") | {"name": "draft-of-mine"}], cluster())
    assert [(template.vmid, template.key, template.by, template.draft, template.made) for template in found] == [
        (59_990, ("agent-desk", DIGEST), "0a1b", True, 0)
    ]


def test_published_template_is_found_by_node_and_all_others_are_not() -> None:
    rows = [
        row("pve1", 59_990, PUBLISHED),
        row("pve1", 59_991, PUBLISHED),
        row("pve2", 59_992, templates.tags("desktop", DIGEST, made=7, by="me", draft=True)),
        row("pve3", 59_993, PUBLISHED, template=0),
        row("pve4", 59_994, templates.tags("gateway", DIGEST, made=7)),
        row("pve5", 59_995, templates.tags("desktop", "f" * 16, made=7)),
        row("pve6", 99, PUBLISHED),
        row("pve7", 59_996, f"image-desktop;digest-{DIGEST}"),
        {"type": "lxc", "node": "pve8", "vmid": 59_997, "tags": PUBLISHED, "template": 1},
        {"type": "qemu", "node": "pve9", "vmid": 59_998, "name": "theirs"},
    ]
    assert templates.find(rows, cluster(), "desktop", DIGEST) == {"pve1": 59_990}


def test_template_on_shared_storage_serves_every_node() -> None:
    nodes = [{"type": "node", "node": name, "status": "online"} for name in ("pve1", "pve2")]
    storages = [{"type": "storage", "node": "pve1", "storage": "local-lvm", "shared": 1}]
    rows: list[Mapping[str, object]] = [row("pve1", 59_990, PUBLISHED), *nodes, *storages]
    assert templates.find(rows, cluster(), "desktop", DIGEST) == {"pve1": 59_990, "pve2": 59_990}
