"""The provider's kinds against a real libvirt: made, seen, changed in place, removed; half-made things are finished."""

import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest

from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.site.libvirt import daemon, power, snapshots, storage
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.network import FilterKind, NetworkKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values
from stacks.provider.provider import changes
from tests.provider.bench import MAC, PREFIX, Bench

pytestmark = pytest.mark.vm


def seen(kind: Kind[Any], bench: Bench, state: Values) -> Any:
    """What is there now."""
    found = kind.read(bench.link, state["name"], state)
    assert found is not None
    return found


def drift(kind: Kind[Any], bench: Bench, state: Values) -> list[str]:
    """What differs between what is there now and what was wanted."""
    inputs = {key: value for key, value in state.items() if key not in kind.computed}
    return changes(kind, seen(kind, bench, state), inputs, [])


def mergeable() -> bool:
    """Whether the machine's QEMU has offered memory to KSM, by what the kernel says of it."""
    pid = Path(f"/run/libvirt/qemu/{PREFIX}.pid").read_text()
    flags = [line.split() for line in Path(f"/proc/{pid}/smaps").read_text().splitlines() if line.startswith("VmFlags")]
    assert flags
    return any("mg" in line for line in flags)


def test_a_whole_machine_is_made_and_is_as_wanted(bench: Bench) -> None:
    bench.machine()
    for kind, _, state in bench.made:
        assert drift(kind, bench, state) == []


def test_what_is_gone_is_seen_and_can_be_removed_again(bench: Bench) -> None:
    bench.machine()
    bench.clean()
    for kind, identity, state in bench.made:
        assert kind.read(bench.link, identity, state) is None
        kind.delete(bench.link, identity, state)


def test_creation_finishes_what_an_interrupted_run_left(bench: Bench) -> None:
    state = bench.network()
    bench.link.networkLookupByName(state["name"]).destroy()
    NetworkKind().create(bench.link, state)
    assert drift(NetworkKind(), bench, state) == []
    for kind, make in ((FilterKind(), bench.filter), (VolumeKind(), bench.disk), (SeedKind(), bench.seed)):
        first = make()
        again = {**first, **kind.create(bench.link, first)[1]}
        assert drift(kind, bench, again) == []


def test_a_disk_that_is_there_keeps_its_data_when_created_again(bench: Bench) -> None:
    state = bench.disk()
    path = Path(state["path"])
    inode = path.stat().st_ino
    VolumeKind().create(bench.link, state)
    assert path.stat().st_ino == inode


def test_an_upload_that_broke_off_is_done_again(bench: Bench) -> None:
    state = bench.disk()
    pool = storage.pool(bench.link)
    for volume in (state["name"], f"{PREFIX}-0123.complete"):
        pool.storageVolLookupByName(volume).delete()
    image = Path(pool.storageVolLookupByName(f"{PREFIX}-0123.qcow2").path())
    image.write_bytes(b"half")
    bench.disk()
    assert image.read_bytes() == (bench.folder / "image.qcow2").read_bytes()


def test_an_image_goes_with_its_last_disk(bench: Bench) -> None:
    state = bench.disk()
    second = {**state, "name": f"{PREFIX}-second.qcow2"}
    bench.make(VolumeKind(), second)
    VolumeKind().delete(bench.link, state["name"], state)
    assert storage.lookup(bench.link, f"{PREFIX}-0123.qcow2") is not None
    VolumeKind().delete(bench.link, second["name"], second)
    assert storage.lookup(bench.link, f"{PREFIX}-0123.qcow2") is None


def test_no_page_of_a_machine_may_be_merged_with_anothers(bench: Bench) -> None:
    bench.machine()
    assert not mergeable()
    machine = bench.link.lookupByName(PREFIX)
    root = ElementTree.fromstring(machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    for element in root.findall("memoryBacking"):
        root.remove(element)
    machine.destroy()
    bench.link.defineXML(ElementTree.tostring(root, encoding="unicode")).create()
    assert mergeable(), "a machine of which that is not said offers its pages to KSM"


def test_a_stopped_machine_and_changed_hardware_are_drift_and_mended_in_place(bench: Bench) -> None:
    state = bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    uuid = machine.UUIDString()
    machine.destroy()
    machine.setMemoryFlags(64 * 1024, libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_MEM_MAXIMUM)
    assert drift(DomainKind(), bench, state) == ["memory_mib", "running"]
    DomainKind().update(bench.link, PREFIX, seen(DomainKind(), bench, state), state)
    assert drift(DomainKind(), bench, state) == []
    assert bench.link.lookupByName(PREFIX).UUIDString() == uuid


@pytest.mark.parametrize("runs", [True, False])
def test_caps_of_a_disk_are_held_by_qemu_and_change_in_place(bench: Bench, runs: bool) -> None:
    state = bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    if not runs:
        power.want(machine, Power.OFF)
        machine.destroy()
    live = libvirt.VIR_DOMAIN_AFFECT_LIVE if runs else libvirt.VIR_DOMAIN_AFFECT_CONFIG
    names = ("disk_iops", "disk_mib_per_second", "disk_burst_iops", "disk_burst_mib_per_second", "disk_burst_seconds")
    plain, burst = (500, 20, None, None, None), (500, 20, 900, 40, 30)
    for caps in (plain, burst, (None, 20, None, 30, 5), (500, 20, 800, None, 1), plain, burst, (None,) * 5):
        iops, mib, burst_iops, burst_mib, seconds = caps
        wanted: Any = {**state, **dict(zip(names, caps, strict=True))}
        state = {**wanted, **DomainKind().update(bench.link, PREFIX, seen(DomainKind(), bench, state), wanted)}
        limits = machine.blockIoTune("vda", live)
        assert {limits["read_iops_sec"], limits["write_iops_sec"]} == {iops or 0}
        assert {limits["read_bytes_sec"], limits["write_bytes_sec"]} == {(mib or 0) << 20}
        assert {limits["read_iops_sec_max"], limits["write_iops_sec_max"]} == {burst_iops or 0}
        assert {limits["read_bytes_sec_max"], limits["write_bytes_sec_max"]} == {(burst_mib or 0) << 20}
        for kind in [kind for kind, most in (("iops", burst_iops), ("bytes", burst_mib)) if most]:
            assert limits[f"read_{kind}_sec_max_length"] == limits[f"write_{kind}_sec_max_length"] == seconds
        assert drift(DomainKind(), bench, state) == []
    assert bool(machine.isActive()) is runs


@pytest.mark.parametrize("runs", [True, False])
def test_cap_of_processor_time_is_the_kernels_and_changes_in_place(bench: Bench, runs: bool) -> None:
    state = bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    if not runs:
        power.want(machine, Power.OFF)
        machine.destroy()
    scope = libvirt.VIR_DOMAIN_AFFECT_LIVE if runs else libvirt.VIR_DOMAIN_AFFECT_CONFIG
    for percent in (50, 130, None):
        wanted: Any = {**state, "cpu_percent": percent}
        state = {**wanted, **DomainKind().update(bench.link, PREFIX, seen(DomainKind(), bench, state), wanted)}
        quota = machine.schedulerParametersFlags(scope)["global_quota"]
        # No limit: -1 while it runs, 0 in a definition that says nothing.
        assert quota == percent * 1000 if percent else quota <= 0 or quota >= 2**62
        assert drift(DomainKind(), bench, state) == []
    assert bool(machine.isActive()) is runs


def test_machine_of_before_gets_its_volume_of_home_while_it_runs(bench: Bench) -> None:
    whole = bench.machine()
    before: Any = {key: value for key, value in whole.items() if key != "home"}
    DomainKind().update(bench.link, PREFIX, seen(DomainKind(), bench, whole), before)
    assert seen(DomainKind(), bench, before)["home"] is None
    assert drift(DomainKind(), bench, before) == []
    assert drift(DomainKind(), bench, whole) == ["home"]
    state = {**whole, **DomainKind().update(bench.link, PREFIX, seen(DomainKind(), bench, before), whole)}
    assert drift(DomainKind(), bench, state) == []
    assert state["uuid"] == whole["uuid"]
    assert bench.link.lookupByName(PREFIX).isActive()


def test_stopped_machine_with_saved_memory_and_a_snapshot_is_removed(bench: Bench) -> None:
    bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    snapshots.take(machine, Snapshot("before"))
    machine.managedSave()
    bench.clean()
    assert PREFIX not in [domain.name() for domain in bench.link.listAllDomains()]


def test_machine_with_a_checkpoint_of_a_backup_tool_is_removed(bench: Bench) -> None:
    bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    # libvirt makes disks in qcow2's first form, which keeps no bitmaps; a backup tool would bring it up to date.
    machine.destroy()
    path = ElementTree.fromstring(machine.XMLDesc()).find("./devices/disk[@device='disk']/source").get("file")  # type: ignore[union-attr]
    subprocess.run(["qemu-img", "amend", "-f", "qcow2", "-o", "compat=1.1", str(path)], check=True, timeout=60)
    machine.create()
    disk = "<disks><disk name='vda' checkpoint='bitmap'/></disks>"
    machine.checkpointCreateXML(f"<domaincheckpoint><name>theirs</name>{disk}</domaincheckpoint>", 0)
    machine.destroy()
    with pytest.raises(libvirt.libvirtError, match="checkpoint"):
        machine.undefine()
    bench.clean()
    assert PREFIX not in [domain.name() for domain in bench.link.listAllDomains()]


def test_a_machine_whose_network_was_restarted_is_plugged_in_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing that listens to a request to shut down has booted in it.
    monkeypatch.setattr("deskyard.site.libvirt.kinds.domain.stop", lambda machine: machine.destroy())
    state = bench.machine()
    network = bench.link.networkLookupByName(f"{PREFIX}-net")
    network.destroy()
    network.create()
    assert drift(DomainKind(), bench, state) == ["plugged"]
    DomainKind().update(bench.link, PREFIX, seen(DomainKind(), bench, state), state)
    assert drift(DomainKind(), bench, state) == []


def test_a_filter_taken_off_a_running_machine_is_put_back(bench: Bench) -> None:
    state = bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    bare = f"<interface type='network'><mac address='{MAC}'/><source network='{PREFIX}-net'/><model type='virtio'/>"
    both = libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_AFFECT_LIVE
    machine.updateDeviceFlags(f"{bare}<port isolated='yes'/></interface>", both)
    assert drift(DomainKind(), bench, state) == ["interfaces"]
    DomainKind().update(bench.link, PREFIX, seen(DomainKind(), bench, state), state)
    assert drift(DomainKind(), bench, state) == []
    assert f"{PREFIX}-filter" in machine.XMLDesc(0)


def test_changed_rules_of_a_filter_are_drift_and_written_anew(bench: Bench) -> None:
    state = bench.filter()
    uuid = bench.link.nwfilterLookupByName(state["name"]).UUIDString()
    open_rules = f"<filter name='{state['name']}' chain='root'><uuid>{uuid}</uuid></filter>"
    bench.link.nwfilterDefineXML(open_rules)
    assert drift(FilterKind(), bench, state) == ["kind"]
    FilterKind().update(bench.link, state["name"], state, state)
    assert drift(FilterKind(), bench, state) == []


def test_a_disk_grows_under_a_running_machine(bench: Bench) -> None:
    bench.machine()
    state: Any = next(state for kind, _, state in bench.made if isinstance(kind, VolumeKind))
    larger: Any = {**state, "size_gib": 2}
    VolumeKind().update(bench.link, state["name"], state, larger)
    assert seen(VolumeKind(), bench, state)["size_gib"] == 2


def test_the_host_has_no_address_on_a_workspace_network(bench: Bench) -> None:
    state = bench.network()
    argv = [*daemon.inside(), "ip", "-brief", "address", "show", "dev", state["bridge"]]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert shown[2:] == []
