"""The examination of a whole cluster: the peer, as it should be and with faults."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.site.proxmox.doctor.doctor import examine
from tests.proxmox.site_on_peer import USER, Rack
from tests.support.pve.access import Grant
from tests.support.pve.peer import Peer

# The address that the peer shows for the bridge of each node.
ADDRESS = "192.0.2.11"
UPLINK = {"network": "192.0.2.0/24", "router": "192.0.2.1", "first": "192.0.2.100", "last": "192.0.2.200"}


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    with Peer(tmp_path, nodes=2) as running:
        zone = {"peers": [ADDRESS], "mtu": 1400}
        made = Rack(running, tmp_path, zone=zone, uplink={**UPLINK, "resolvers": ["192.0.2.1"]})
        root = running.client()
        root.ask("POST", "/cluster/sdn/zones", zone="deskyard", type="vxlan", peers=ADDRESS, mtu=1400)
        assert root.finish("PUT", "/cluster/sdn") == "OK"
        root.ask("PUT", "/cluster/firewall/options", enable=1)
        running.fake.calls.clear()
        yield made


def wrong(rack: Rack) -> dict[str, str]:
    return {finding.name: finding.state for finding in examine(rack.site, rack.client()) if finding.state != "ok"}


def test_good_cluster_is_found_good_and_nothing_is_written(rack: Rack) -> None:
    assert wrong(rack) == {}
    assert [str(call) for call in rack.fake.calls if call.writes] == []


FAULTS: dict[str, tuple[Callable[[Rack], object], dict[str, str]]] = {
    "old version": (
        lambda rack: setattr(rack.fake, "version", "8.3.1"),
        {"version": "error", "token_privileges": "error", "token_surplus": "warning"},
    ),
    "privilege lacks": (
        lambda rack: rack.fake.roles["DeskyardMachines"].discard("VM.Clone"),
        {"token_privileges": "error"},
    ),
    "privilege too many": (
        lambda rack: rack.fake.acl[USER].append(Grant("/access", "Administrator", True)),
        {"token_surplus": "warning"},
    ),
    "no quorum": (lambda rack: setattr(rack.fake, "quorate", False), {"quorum": "error"}),
    "node down": (lambda rack: rack.fake.nodes["pve2"].update(online=False), {"nodes": "warning"}),
    "no import": (
        lambda rack: rack.fake.storages["local"].update(content="iso"),
        {"storage_images": "error"},
    ),
    "storage gone": (lambda rack: rack.fake.storages.pop("local-lvm"), {"storage_disks": "error"}),
    "zone changed": (
        lambda rack: rack.peer.client().ask("PUT", "/cluster/sdn/zones/deskyard", mtu=1450),
        {"zone": "error"},
    ),
    "others' VNet waits": (
        lambda rack: (
            rack.peer.client().ask("POST", "/cluster/sdn/zones", zone="other", type="simple"),
            rack.peer.client().finish("PUT", "/cluster/sdn"),
            rack.peer.client().ask("POST", "/cluster/sdn/vnets", vnet="foreign", zone="other"),
        ),
        {"pending_changes": "warning"},
    ),
    "firewall off": (
        lambda rack: rack.peer.client().ask("PUT", "/cluster/firewall/options", enable=0),
        {"firewall": "error"},
    ),
    "foreign machine": (
        lambda rack: rack.peer.client().finish("POST", "/nodes/pve1/qemu", vmid=30000, name="foreign"),
        {"vm_ids": "warning"},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_exactly_its_finding(rack: Rack, name: str) -> None:
    do, expected = FAULTS[name]
    do(rack)
    assert wrong(rack) == expected


def test_token_that_is_not_accepted_is_one_finding(rack: Rack) -> None:
    rack.fake.apitokens.clear()
    findings = examine(rack.site, rack.client())
    assert [(finding.name, finding.state) for finding in findings] == [("api", "error")]
    assert "401" in findings[0].what


def test_cluster_that_cannot_be_reached_is_one_finding(rack: Rack) -> None:
    client = rack.client(connect=1, read=1)
    rack.fake.faults.silent_from = 1
    assert [(finding.name, finding.state) for finding in examine(rack.site, client)] == [("api", "error")]


def test_site_of_this_machine_is_refused(rack: Rack) -> None:
    with pytest.raises(ConfigError, match="is no Proxmox VE cluster"):
        examine(rack.site.model_copy(update={"proxmox": None}))
