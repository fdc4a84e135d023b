"""A tier is a cap: no way of writing a declaration gets a desktop more than its tier has."""

from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.care import BackupSchedule
from deskyard.model.site import Site
from deskyard.model.tier import TIERS, DiskBurst, Tier
from tests.support.paper_cluster import PaperCluster, rack, workspace

WHOLE: dict[str, Any] = {"vcpus": 2, "memory_mib": 4096, "disk_gib": 20}


@pytest.mark.parametrize("field", WHOLE)
@pytest.mark.parametrize("value", [0, -1, 2.5, float("inf"), float("nan"), 10**9, "4 GiB", "0x10", "1e3", None, [4]])
def test_what_is_no_size_is_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=field):
        Tier.check({**WHOLE, field: value}, "site.yaml")


@pytest.mark.parametrize("extra", [{"vcpus": 16}, {"memory_mib": 65536}, {"disk_gib": 400}, {"cores": 16}])
def test_a_desktop_cannot_ask_for_more_than_its_tier(extra: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(extra))):
        workspace("lab", desktops=[{"name": "dev1", **extra}])


@pytest.mark.parametrize("tier", ["huge", "Free", "free ", "", "free,max", 4])
def test_a_tier_that_the_site_does_not_have_is_refused(tier: object) -> None:
    with pytest.raises(ConfigError, match="tier"):
        PaperCluster().plan(workspace("lab", desktops=[{"name": "dev1", "tier": tier}]))


@pytest.mark.parametrize("tier", TIERS)
def test_the_machine_on_the_cluster_has_its_tier_and_no_more(tier: str) -> None:
    _, on_cluster = PaperCluster().plan(workspace("lab", desktops=[{"name": "dev1", "tier": tier}]))
    machine, caps = on_cluster.desktops["dev1"].machine, TIERS[tier]
    assert (machine.vcpus, machine.memory_mib, machine.disk_gib) == (caps.vcpus, caps.memory_mib, caps.disk_gib)


@pytest.mark.parametrize("cap", ["disk_iops", "disk_mib_per_second", "network_mib_per_second", "cpu_percent"])
def test_a_site_of_either_backend_may_cap(cap: str) -> None:
    assert getattr(Site.check({"tiers": {"steady": {**WHOLE, cap: 20}}}, "local.yaml").tiers["steady"], cap) == 20


@pytest.mark.parametrize("cap", [256, 4_194_304])
def test_processes_may_be_capped_as_far_as_a_desktop_is_drawn(cap: int) -> None:
    assert Tier.check({**WHOLE, "processes": cap}, "site.yaml").processes == cap
    assert Tier.check(WHOLE, "site.yaml").processes is None


@pytest.mark.parametrize("cap", [0, -1, 255, 4_194_305, 300.5, "many", "max", [300], float("inf")])
def test_cap_of_processes_that_no_desktop_can_have_is_refused(cap: object) -> None:
    with pytest.raises(ConfigError, match="processes"):
        Tier.check({**WHOLE, "processes": cap}, "site.yaml")


CAPPED = {**WHOLE, "disk_iops": 100, "disk_mib_per_second": 10}


@pytest.mark.parametrize(
    "burst", [{"iops": 500}, {"mib_per_second": 11, "seconds": 30}, {"iops": 101, "mib_per_second": 50}]
)
def test_disks_may_burst_above_their_caps(burst: dict[str, int]) -> None:
    found = Tier.check({**CAPPED, "disk_burst": burst}, "site.yaml").disk_burst
    assert found is not None
    assert found.model_dump(exclude_unset=True) == burst


@pytest.mark.parametrize(
    ("burst", "tier", "said"),
    [
        ({}, CAPPED, "raises no cap"),
        ({"seconds": 5}, CAPPED, "raises no cap"),
        ({"iops": 100}, CAPPED, "is no more than disk_iops, 100"),
        ({"mib_per_second": 9}, CAPPED, "is no more than disk_mib_per_second, 10"),
        ({"iops": 500}, {**WHOLE, "disk_mib_per_second": 10}, "disk_burst.iops: there is no such cap"),
        ({"mib_per_second": 500}, {**WHOLE, "disk_iops": 100}, "disk_burst.mib_per_second: there is no such cap"),
        ({"iops": 500, "seconds": 0}, CAPPED, "disk_burst.seconds"),
        ({"iops": 500, "minutes": 1}, CAPPED, "disk_burst.minutes"),
    ],
)
def test_a_burst_that_raises_no_cap_is_refused(burst: dict[str, int], tier: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Tier.check({**tier, "disk_burst": burst}, "site.yaml")


@pytest.mark.parametrize("burst", [{"iops": 500}, {"iops": 500, "seconds": 30}])
def test_a_burst_is_in_the_plan_of_a_cluster_for_as_long_as_on_libvirt(burst: dict[str, int]) -> None:
    tiers = {"quick": {**CAPPED, "disk_burst": burst}}
    site = Site.check({**rack().model_dump(mode="json"), "tiers": tiers}, "rack.yaml")
    _, on_cluster = PaperCluster().plan(workspace("lab", desktops=[{"name": "dev1", "tier": "quick"}]), site)
    assert on_cluster.desktops["dev1"].disk_burst == DiskBurst(**burst)
    assert on_cluster.gateway.disk_burst is None
    assert Site.check({"tiers": tiers}, "local.yaml").tiers["quick"].disk_burst == DiskBurst(**burst)


def test_a_desktop_is_backed_up_as_it_says_itself_else_as_its_tier_does() -> None:
    tiers = {"kept": {**WHOLE, "backup": {"every": "1d", "keep_daily": 7}}, "scratch": {**WHOLE, "backup": "never"}}
    site = type(rack()).check({**rack().model_dump(mode="json"), "tiers": tiers}, "rack.yaml")
    desktops = [
        {"name": "dev1", "tier": "kept"},
        {"name": "dev2", "tier": "kept", "backup": {"every": "6h"}},
        {"name": "dev3", "tier": "kept", "backup": "never"},
        {"name": "dev4", "tier": "scratch"},
        {"name": "dev5"},
        {"name": "dev6", "tier": "kept", "lifetime": "task"},
    ]
    planned, _ = PaperCluster().plan(workspace("lab", desktops=desktops), site)
    found = [desktop.backup for desktop in (*planned.desktops, *planned.seats)]
    assert found[0] == BackupSchedule(every="1d", keep_daily=7)
    assert found[0].keep == (0, 0, 7, 0, 0, 0)
    assert found[1:] == [BackupSchedule(every="6h"), "never", "never", None, None]


@pytest.mark.parametrize(
    ("backup", "said"),
    [
        ({"every": "30m"}, "write 1h or more"),
        ({"every": "daily"}, "is no duration"),
        ({"every": "1d", "verify_every": "1s"}, "write 1h or more"),
        ({"every": "1d", "keep_daily": -1}, "keep_daily"),
        ({"keep_daily": 7}, "every"),
        ({"every": "1d", "keep-daily": 7}, "keep_daily"),
        ("always", "backup"),
    ],
)
def test_a_schedule_of_backups_that_cannot_be_kept_is_refused(backup: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Tier.check({**WHOLE, "backup": backup}, "site.yaml")


def test_what_is_made_for_one_task_has_no_schedule_of_backups() -> None:
    seat = {"name": "seat", "lifetime": "task", "backup": {"every": "1d"}}
    with pytest.raises(ConfigError, match="backup is for desktops that are kept"):
        workspace("lab", desktops=[seat])
    assert workspace("lab", desktops=[{**seat, "backup": "never"}])


@pytest.mark.parametrize(("percent", "limit"), [(None, 2.0), (50, 0.5), (150, 1.5), (6400, 2.0)])
def test_processor_time_on_a_cluster_is_that_of_the_tier_and_never_more_than_its_processors(
    percent: int | None, limit: float
) -> None:
    site = rack()
    tiers = {"slow": {**WHOLE, "cpu_percent": percent, "network_mib_per_second": 3}}
    site = type(site).check({**site.model_dump(mode="json"), "tiers": tiers}, "rack.yaml")
    _, on_cluster = PaperCluster().plan(workspace("lab", desktops=[{"name": "dev1", "tier": "slow"}]), site)
    vm = on_cluster.desktops["dev1"]
    assert (vm.cpu_limit, vm.nics[0].mib_per_second, on_cluster.gateway.cpu_limit) == (limit, 3, 1.0)
