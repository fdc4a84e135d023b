"""What may be written about a cluster, and the errors for what may not."""

from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.site import Site

CLUSTER: dict[str, Any] = {
    "endpoint": "https://pve1.example.org:8006",
    "uplink": {
        "network": "192.0.2.0/24",
        "router": "192.0.2.1",
        "first": "192.0.2.10",
        "last": "192.0.2.99",
        "resolvers": ["192.0.2.2"],
    },
    "zone": {"kind": "vxlan", "peers": ["198.51.100.1", "198.51.100.2"]},
}


def site(**changes: Any) -> Site:
    return Site.check({"name": "rack", "backend": "proxmox", "proxmox": {**CLUSTER, **changes}}, "rack.yaml")


def test_a_cluster_with_its_defaults_is_accepted() -> None:
    cluster = site().proxmox
    assert cluster is not None
    assert cluster.storages.of_templates == cluster.storages.disks
    assert (cluster.nodes.only, cluster.nodes.exclude) == ((), ())


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"endpoint": "http://pve1:8006"}, "proxmox", "write https://"),
        ({"fingerprint": "AA:BB"}, "proxmox.fingerprint", "correct"),
        ({"ca": "ca.pem", "fingerprint": ":".join(["AA"] * 32)}, "proxmox", "one of them"),
        ({"nodes": {"only": ["a"], "exclude": ["b"]}}, "proxmox.nodes", "one of them"),
        ({"zone": {"kind": "vxlan"}}, "proxmox.zone", "address of every node"),
        ({"zone": {"kind": "vlan", "first_tag": 1, "last_tag": 9}}, "proxmox.zone", "bridge"),
        ({"zone": {"kind": "vlan", "bridge": "vmbr1"}}, "proxmox.zone", "between 1 and 4094"),
        ({"zone": {"kind": "simple", "name": "much-too-long"}}, "proxmox.zone.name", "correct"),
        ({"uplink": {**CLUSTER["uplink"], "router": "203.0.113.1"}}, "proxmox.uplink", "inside"),
        ({"uplink": {**CLUSTER["uplink"], "last": "192.0.2.255"}}, "proxmox.uplink", "inside"),
        ({"uplink": {**CLUSTER["uplink"], "router": "192.0.2.50"}}, "proxmox.uplink", "out of the range"),
        ({"vm_ids": {"first": 300, "last": 200}}, "proxmox.vm_ids", "exchange"),
        ({"storages": {"disk": "local-lvm"}}, "proxmox.storages.disk", "disks"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field_and_remedy(changes: dict[str, Any], field: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        site(**changes)
    assert caught.value.field == f"rack.yaml: {field}"
    assert remedy in str(caught.value)


def test_backend_and_cluster_belong_together() -> None:
    with pytest.raises(ConfigError, match="needs its cluster"):
        Site.check({"name": "rack", "backend": "proxmox"}, "rack.yaml")
    with pytest.raises(ConfigError, match="write backend: proxmox"):
        Site.check({"name": "rack", "proxmox": CLUSTER}, "rack.yaml")
