"""What of a cluster's templates is cloned."""

from pathlib import Path

import pytest

from deskyard.image.publish.retention import doubles
from deskyard.site.proxmox import templates
from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.machines import look
from deskyard.site.proxmox.token import VARIABLE
from tests.unit.site.stub import TOKEN, Reply, serving

BEST, GOOD = "0123456789abcdef", "fedcba9876543210"


def template(node: str, vmid: int, digest: str) -> dict[str, object]:
    tags = templates.tags("desktop", digest, made=7)
    return {"type": "qemu", "node": node, "vmid": vmid, "tags": tags, "template": 1}


def cloned(folder: Path, rows: list[dict[str, object]]) -> object:
    """The templates of desktops that a Plan is made with."""
    with serving(folder, Reply(data=rows), Reply(data=[])) as stub:
        return (look(connect(stub.site()), {"desktop": [BEST, GOOD]}).templates or {})["desktop"]


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)


def test_of_two_on_a_node_the_one_is_cloned_that_retention_keeps(tmp_path: Path) -> None:
    rows = [template("pve1", vmid, BEST) for vmid in (59_990, 59_991)]
    with serving(tmp_path, Reply()) as stub:
        going = doubles(templates.read(rows, stub.site().cluster), shared=False)
    assert [machine.vmid for machine in going] == [59_991]
    assert cloned(tmp_path, rows) == {"pve1": 59_990}


def test_the_best_digest_is_cloned_that_any_node_has(tmp_path: Path) -> None:
    good, best = template("pve1", 59_990, GOOD), template("pve2", 59_991, BEST)
    assert cloned(tmp_path, [good]) == {"pve1": 59_990}
    assert cloned(tmp_path, [good, best]) == {"pve2": 59_991}
    assert cloned(tmp_path, []) == {}
