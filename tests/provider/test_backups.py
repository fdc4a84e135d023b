"""Backups of domains against a real libvirt: disks as of one moment, content that is swapped, a machine apart."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import libvirt
import libvirt_qemu
import pytest

from deskyard.errors import SiteError
from deskyard.plan.snapshot import Snapshot
from deskyard.site.libvirt import power, snapshots, storage
from deskyard.site.libvirt.backup import content, export, freeze, swap, trial
from deskyard.site.libvirt.backup.backups import LibvirtBackups
from deskyard.site.libvirt.kinds.volume import VolumeKind
from tests.provider.bench import PREFIX, Bench

pytestmark = pytest.mark.vm

GIB = 1 << 30


@pytest.fixture
def machine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine that is off, with some bytes on its disk; nothing boots in it, so there is nothing to freeze."""

    def hold(_machine: Any, _nonce: str, work: Callable[[], None]) -> float:
        work()
        return 0.0

    monkeypatch.setattr(freeze, "hold", hold)
    bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    machine.destroy()
    write(machine, "7", "1M", "3M")
    return machine


def disk_of(machine: Any) -> Path:
    return content.disks(machine)[0].path


def write(machine: Any, pattern: str, *where: str) -> None:
    """Write into the disk of a machine that is off."""
    subprocess.run(["qemu-io", "-c", f"write -P {pattern} {' '.join(where)}", disk_of(machine)], check=True)


def files(machine: Any) -> list[str]:
    """What lies in the pool for the machine, its seed and image apart."""
    return sorted((path.name for path in disk_of(machine).parent.glob(f"{PREFIX}.*")), key=len)


def digest(argv: list[str]) -> tuple[int, str]:
    """How many bytes a program writes, and their hash."""
    found, count = hashlib.sha256(), 0
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as producer:
        assert producer.stdout is not None
        while chunk := producer.stdout.read(1 << 20):
            found.update(chunk)
            count += len(chunk)
    assert producer.returncode == 0
    return count, found.hexdigest()


def raw(machine: Any, folder: Path) -> dict[str, Path]:
    """The content of the disks of a machine that is off, each as a file of its own."""
    found = {disk.target: folder / disk.target for disk in content.disks(machine)}
    for disk in content.disks(machine):
        subprocess.run(["qemu-img", "convert", "-O", "raw", disk.path, found[disk.target]], check=True)
    return found


def raw_of_nothing(folder: Path) -> Path:
    """A restored disk with nothing on it."""
    path = folder / "vda.raw"
    path.write_bytes(b"")
    os.truncate(path, 64 << 20)
    return path


def read(machine: Any) -> tuple[int, str]:
    """What a backup made now would hold."""
    with export.moment(machine, "nonce") as moment:
        assert [source.target for source in moment.sources] == ["vda", "vdc"]
        assert [source.size for source in moment.sources] == [machine.blockInfo(name)[0] for name in ("vda", "vdc")]
        return digest(moment.sources[0].argv)


def test_disk_is_read_whole_while_the_machine_runs_and_while_it_is_off(machine: Any, tmp_path: Path) -> None:
    expected = digest(["cat", str(raw(machine, tmp_path)["vda"])])
    assert expected[0] == GIB
    assert read(machine) == expected
    machine.create()
    assert read(machine) == expected
    assert read(machine) == expected
    assert machine.jobStats()["type"] == libvirt.VIR_DOMAIN_JOB_NONE
    assert not list(disk_of(machine).parent.glob(f"{PREFIX}*{export.SCRATCH}"))
    assert not machine.listAllCheckpoints()


def test_what_is_written_after_the_moment_is_not_in_it(machine: Any, tmp_path: Path) -> None:
    expected = digest(["cat", str(raw(machine, tmp_path)["vda"])])
    machine.create()
    with export.moment(machine, "nonce") as moment:
        # Nothing boots in it: its monitor writes in its place.
        work = 'qemu-io -d /machine/peripheral/virtio-disk0/virtio-backend "write -P 9 1M 3M"'
        answer = ask_qemu(machine, "human-monitor-command", {"command-line": work})
        assert answer == "", answer
        assert digest(moment.sources[0].argv) == expected
    assert read(machine) != expected


def test_job_that_a_killed_run_left_is_ended_and_another_tools_is_not(machine: Any) -> None:
    machine.create()
    found = content.disks(machine)
    socket = export._socket(machine)
    export.begin(machine, found, socket)
    read(machine)
    export.begin(machine, found, socket.with_name("other.sock"))
    with pytest.raises(SiteError, match="another tool"):
        read(machine)
    machine.abortJob()


@pytest.mark.parametrize("state", ["paused", "saved"])
def test_machine_whose_memory_is_kept_gets_no_backup(machine: Any, state: str) -> None:
    machine.create()
    power.pause(machine, to_disk=state == "saved")
    with pytest.raises(SiteError, match=f"is {state}"), export.moment(machine, "nonce"):
        pass


def test_restored_content_lies_on_the_same_image_and_is_no_drift(bench: Bench, machine: Any, tmp_path: Path) -> None:
    path = disk_of(machine)
    below = content.chain(path)[0]["full-backing-filename"]
    snapshots.take(machine, Snapshot("before"))
    restored = raw(machine, tmp_path)
    expected = digest(["cat", str(restored["vda"])])
    write(machine, "9", "0", "8M")
    with swap.swapped(machine, restored):
        machine.create()
    machine.destroy()
    assert read(machine) == expected
    assert content.chain(path)[0]["full-backing-filename"] == below
    assert path.stat().st_size < 8 << 20
    assert machine.listAllSnapshots() == []
    assert files(machine) == [path.name, path.with_suffix(".home.qcow2").name]
    for kind, _, state in bench.made:
        if isinstance(kind, VolumeKind):
            found = kind.read(bench.link, state["name"], state)
            assert found is not None
            assert found["size_gib"] == state["size_gib"]


def test_disk_that_grew_since_its_backup_keeps_its_size(bench: Bench, machine: Any, tmp_path: Path) -> None:
    restored = raw(machine, tmp_path)
    bench.link.storageVolLookupByPath(str(disk_of(machine))).resize(2 * GIB)
    with swap.swapped(machine, restored):
        pass
    assert machine.blockInfo("vda")[0] == 2 * GIB


def test_restore_that_does_not_boot_puts_everything_back(machine: Any, tmp_path: Path) -> None:
    restored = raw(machine, tmp_path)
    write(machine, "9", "0", "8M")
    snapshots.take(machine, Snapshot("before"))
    before, inode = read(machine), disk_of(machine).stat().st_ino
    with pytest.raises(KeyboardInterrupt), swap.swapped(machine, restored):
        machine.create()
        raise KeyboardInterrupt
    assert (read(machine), disk_of(machine).stat().st_ino) == (before, inode)
    assert [snapshot.getName() for snapshot in machine.listAllSnapshots()] == ["before"]
    assert len(files(machine)) == 2


@pytest.mark.parametrize("killed", ["between two disks", "behind the exchange"])
def test_what_a_killed_restore_has_given_a_new_machine_goes_and_its_own_is_back(
    machine: Any, tmp_path: Path, killed: str
) -> None:
    system, home = content.disks(machine)
    subprocess.run(["qemu-img", "create", "-q", tmp_path / "restored", "1G"], check=True)
    own, given = system.path.stat().st_ino, list[int]()
    with pytest.raises(InterruptedError), swap.swapped(machine, dict.fromkeys(("vda", "vdc"), tmp_path / "restored")):
        given += [disk.path.stat().st_ino for disk in (system, home)]
        # As a kill leaves it: what it has given, and beside it what it kept.
        for disk in (system, home):
            swap._kept(disk).rename(tmp_path / f"kept-{disk.target}")
            disk.path.rename(tmp_path / f"given-{disk.target}")
            disk.path.hardlink_to(tmp_path / f"kept-{disk.target}")
        raise InterruptedError
    for disk in (system, home) if killed == "behind the exchange" else (system,):
        swap._kept(disk).hardlink_to(disk.path)
        (tmp_path / f"given-{disk.target}").replace(disk.path)
    if killed == "between two disks":
        swap._kept(home).hardlink_to(home.path)
        (tmp_path / "given-vdc").replace(swap._fresh(home))
    else:
        machine.create()
    assert system.path.stat().st_ino == given[0] != own
    LibvirtBackups(PREFIX).put_back()
    assert not machine.isActive()
    assert system.path.stat().st_ino == own
    assert [swap._fresh(disk).exists() for disk in (system, home)] == [False, False]
    # As nothing is there to choose between, it goes back to nothing more.
    LibvirtBackups(PREFIX).put_back()
    swap.require_settled(machine)
    assert system.path.stat().st_ino == own


def test_content_that_an_interrupted_restore_kept_is_never_overwritten(machine: Any, tmp_path: Path) -> None:
    path = disk_of(machine)
    kept = path.with_suffix(f".{storage.RESTORING[1]}.qcow2")
    kept.write_bytes(path.read_bytes())
    try:
        with (
            pytest.raises(SiteError, match="was interrupted"),
            swap.swapped(machine, raw(machine, tmp_path)),
        ):
            pass
    finally:
        kept.unlink()
    with (
        pytest.raises(SiteError, match="the disks vda, vdc, and the backup vda"),
        swap.swapped(machine, {"vda": path}),
    ):
        pass


def test_trial_has_no_nic_leaves_the_machine_alone_and_is_gone(
    bench: Bench, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "answering", lambda tried: tried)
    backups: Any = LibvirtBackups(PREFIX)
    machine.create()
    before = read(machine)
    with backups.room("verify", 0) as folder:
        restored = raw_of_nothing(folder)
        with backups.scratch({"vda": restored}) as tried:
            document = tried.XMLDesc(0)
            assert "<interface" not in document
            assert str(restored) in document
            assert str(disk_of(machine)) not in document
            assert machine.UUIDString() not in document
    assert not folder.exists()
    assert f"{PREFIX}{trial.SUFFIX}" not in [domain.name() for domain in bench.link.listAllDomains()]
    assert read(machine) == before


def test_machine_that_ends_is_not_waited_for(machine: Any) -> None:
    assert not machine.isActive()
    with pytest.raises(SiteError, match="did not boot"):
        trial.answering(machine)


def ask_qemu(machine: Any, command: str, arguments: dict[str, str]) -> Any:
    """Ask QEMU itself."""
    order = json.dumps({"execute": command, "arguments": arguments})
    return json.loads(libvirt_qemu.qemuMonitorCommand(machine, order, 0))["return"]
