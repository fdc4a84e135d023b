"""What a stolen token of a site could do: to machines that are in no pool, to the hosts, to other people's rights."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.site.proxmox.client import ApiError
from tests.proxmox.site_on_peer import USER, Rack
from tests.support.pve.access import Grant
from tests.support.pve.asking import machine
from tests.support.pve.peer import Peer

FOREIGN = 100
FORBIDDEN: dict[str, tuple[str, str, dict[str, object]]] = {
    "remove a machine": ("DELETE", f"nodes/pve1/qemu/{FOREIGN}", {"purge": True}),
    "change a machine": ("PUT", f"nodes/pve1/qemu/{FOREIGN}/config", {"memory": 64}),
    "stop a machine": ("POST", f"nodes/pve1/qemu/{FOREIGN}/status/stop", {}),
    "open its firewall": ("PUT", f"nodes/pve1/qemu/{FOREIGN}/firewall/options", {"enable": 0}),
    "give itself rights": ("PUT", "access/acl", {"path": "/", "roles": "Administrator", "users": USER}),
    "turn the firewall off": ("PUT", "cluster/firewall/options", {"enable": 0}),
    "make a zone": ("POST", "cluster/sdn/zones", {"zone": "theirs", "type": "simple"}),
}


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    """A site on a cluster that has a machine of somebody else."""
    with Peer(tmp_path, nodes=2) as running, running.client() as root:
        machine(root, FOREIGN)
        yield Rack(running, tmp_path)


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_the_token_of_a_site_may_not_touch_what_is_not_its_own(rack: Rack, deed: str) -> None:
    method, path, values = FORBIDDEN[deed]
    before = dict(rack.fake.vm(FOREIGN).config)
    with pytest.raises(ApiError) as refused:
        rack.client().call(method, path, values)
    assert refused.value.status == 403
    assert rack.fake.vm(FOREIGN).config == before


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_the_token_of_an_administrator_may(rack: Rack, deed: str) -> None:
    method, path, values = FORBIDDEN[deed]
    rack.fake.acl[USER].append(Grant("/", "Administrator", True))
    rack.fake.acl[USER] = [grant for grant in rack.fake.acl[USER] if grant.role == "Administrator"]
    rack.client().call(method, path, values)
