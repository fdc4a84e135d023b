"""Templates are known by their tags."""

from pathlib import Path

import pytest

from deskyard.proxmox import client as api
from deskyard.proxmox import listing, templates
from deskyard.proxmox.token import VARIABLE
from tests.unit.proxmox.stub import TOKEN, Reply, serving

DIGEST = "0123456789abcdef"


def row(node: str, vmid: int, tags: str, template: object = 1) -> dict[str, object]:
    return {"type": "qemu", "node": node, "vmid": vmid, "name": f"vm{vmid}", "tags": tags, "template": template}


PUBLISHED = templates.tags("desktop", DIGEST, made=7)


def test_published_template_is_found_by_node_and_all_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)
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
    # The one that is not flagged is asked for its own configuration, and is no template there either.
    with serving(tmp_path, Reply(data=rows), Reply(data={"template": 0})) as stub:
        site = stub.site()
        assert site.proxmox is not None
        found = templates.find(listing.resources(api.connect(site)), site.proxmox, "desktop", DIGEST)
    assert found == {"pve1": 59_990}


def test_template_on_shared_storage_serves_every_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)
    nodes = [{"type": "node", "node": name, "status": "online"} for name in ("pve1", "pve2")]
    storages = [{"type": "storage", "node": "pve1", "storage": "local-lvm", "shared": 1}]
    with serving(tmp_path, Reply(data=[row("pve1", 59_990, PUBLISHED), *nodes, *storages])) as stub:
        site = stub.site()
        assert site.proxmox is not None
        found = templates.find(listing.resources(api.connect(site)), site.proxmox, "desktop", DIGEST)
    assert found == {"pve1": 59_990, "pve2": 59_990}
