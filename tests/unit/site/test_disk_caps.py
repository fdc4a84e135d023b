"""Caps of disks change in a domain that runs and in its definition, libvirt's own test driver answers; and at seats."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest

from deskyard.model.tier import DiskBurst
from deskyard.site.libvirt.kinds import domain as kind
from deskyard.site.proxmox.kinds import drive
from deskyard.site.proxmox.life import disposables
from tests.unit.site.driver import Domain, running


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Domain]:
    """A running domain of its own."""
    with running(monkeypatch) as found:
        yield found


def test_burst_is_given_changed_and_lifted_at_once_and_for_later(domain: Domain) -> None:
    none: dict[str, Any] = dict.fromkeys(kind.DISK_CAPS)
    # The driver, unlike QEMU, refuses a cap without a burst.
    both = dict(zip(kind.DISK_CAPS, (500, 20, 900, 40, 30), strict=True))
    shorter = {**none, "disk_mib_per_second": 20, "disk_burst_mib_per_second": 30, "disk_burst_seconds": 5}
    for caps in (both, shorter, both, none):
        kind._throttle(domain, caps)  # type: ignore[arg-type]
        for scope in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
            assert kind._disk_caps(ElementTree.fromstring(domain.XMLDesc(scope))) == caps


def test_burst_of_a_tier_changes_in_place() -> None:
    assert not kind.DomainKind.replaces & set(kind.DISK_CAPS)


@pytest.mark.parametrize(
    ("burst", "written"),
    [
        (None, ""),
        (DiskBurst(iops=900), ",iops_rd_max=900,iops_wr_max=900"),
        (
            DiskBurst(iops=900, seconds=30),
            ",iops_rd_max=900,iops_wr_max=900,iops_rd_max_length=30,iops_wr_max_length=30",
        ),
    ],
)
def test_disks_at_a_seat_of_a_cluster_have_the_burst_of_its_tier(burst: DiskBurst | None, written: str) -> None:
    machine = SimpleNamespace(home_gib=8)
    planned: Any = SimpleNamespace(
        disk_iops=100, disk_mib_per_second=None, disk_burst=burst, node="pve1", storage="local-lvm", machine=machine
    )
    client: Any = SimpleNamespace(get=lambda _: {"type": "lvmthin"})
    system, home = disposables._disks(client, planned, "local-lvm:vm-100-disk-0,size=4G,iops_rd=7").values()
    assert system == f"local-lvm:vm-100-disk-0,discard=on,iops_rd=100,iops_wr=100{written}"
    assert home.startswith("local-lvm:8,") and home.endswith(f",iops_rd=100,iops_wr=100{written}")
    assert drive.caps_of(drive.options_of(home)) == drive.Caps.of(100, None, burst)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, None),
        ({"iops_rd_max": "9", "iops_wr_max": "9"}, None),
        ({"iops_rd_max": "9", "iops_wr_max": "9", "iops_rd_max_length": "1", "iops_wr_max_length": "1"}, None),
        ({"iops_rd_max": "9", "iops_wr_max": "9", "iops_rd_max_length": "30", "iops_wr_max_length": "30"}, 30),
        # By hand: of reads alone, another one for bytes, and one without a burst.
        ({"iops_rd_max": "9", "iops_wr_max": "9", "iops_rd_max_length": "30"}, 0),
        ({"iops_rd_max": "9", "iops_rd_max_length": "30", "mbps_rd_max": "9", "bps_rd_max_length": "20"}, 0),
        ({"bps_wr_max_length": "5"}, 5),
    ],
)
def test_length_of_a_burst_on_a_cluster_is_read_as_what_all_have_alike(
    options: dict[str, str], seconds: int | None
) -> None:
    assert drive.caps_of(options).disk_burst_seconds == seconds
    lifted = drive.Caps(disk_iops=5)
    assert drive.capped(options, lifted) == {"iops_rd": "5", "iops_wr": "5"}
