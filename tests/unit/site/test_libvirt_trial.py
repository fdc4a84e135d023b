"""The machine in which a restored desktop is tried: the disks of the backup, no NIC, another identity."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest

from deskyard.errors import SiteError
from deskyard.plan.backup import NoVerdict
from deskyard.site.libvirt import console_log, documents
from deskyard.site.libvirt.backup import trial as trial_module
from deskyard.site.libvirt.backup.trial import MOST_MEMORY_KIB, trial

NIC = {"mac": "02:00:00:00:00:01", "network": "net", "filter": "rules", "address": "10.0.0.2", "isolated": True}

DISKS = {"vda": Path("/restored/vda.raw")}


class Starting:
    """A desktop whose trial libvirt starts, or not."""

    def __init__(self) -> None:
        self.started = list[str]()

    def XMLDesc(self, _: int) -> str:
        return live()

    def name(self) -> str:
        return "deskyard-lab.dev1"

    def connect(self) -> Any:
        return self

    def lookupByName(self, name: str) -> Any:
        return libvirt.open("test:///default").lookupByName(name)

    def createXML(self, text: str, _: int) -> Any:
        self.started.append(text)
        raise libvirt.libvirtError("cannot set up guest memory 'pc.ram': Cannot allocate memory")


@pytest.mark.parametrize(("free", "words"), [(MOST_MEMORY_KIB // 1024, "the trial needs"), (1 << 20, "does not start")])
def test_trial_that_memory_lacks_for_says_nothing_of_the_backup(
    monkeypatch: pytest.MonkeyPatch, free: int, words: str
) -> None:
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    monkeypatch.setattr(trial_module, "available_memory_mib", lambda: free)
    monkeypatch.setattr(console_log, "remove", lambda _: None)
    machine = Starting()
    with pytest.raises(NoVerdict, match=words), trial_module.booted(machine, DISKS, str):
        pass
    assert bool(machine.started) == (words == "does not start")


class Tried(Starting):
    """A trial that libvirt has started; then nobody can be asked for it."""

    def createXML(self, text: str, _: int) -> Any:
        self.started.append(text)
        return self

    def isActive(self) -> bool:
        raise libvirt.libvirtError("client socket is closed")

    def lookupByName(self, name: str) -> Any:
        if self.started:
            raise libvirt.libvirtError("client socket is closed")
        return super().lookupByName(name)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Tried:
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    monkeypatch.setattr(trial_module, "available_memory_mib", lambda: 1 << 20)
    monkeypatch.setattr(console_log, "remove", lambda _: None)
    return Tried()


@pytest.mark.parametrize("proves", [False, True], ids=["boots", "is proved"])
def test_trial_that_is_ended_from_outside_says_nothing_of_the_backup(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, proves: bool
) -> None:
    if proves:
        monkeypatch.setattr(trial_module, "answering", lambda _: object())
    ended = pytest.raises(NoVerdict, match=r"dev1\.verify.*was ended while it was tried: QEMU ended")
    with ended, trial_module.booted(tried, DISKS, lambda: "QEMU ended"):
        raise SiteError("machine", "dev1.verify", "guest agent: it is gone", "see whether it has booted")


def test_trial_that_fails_by_itself_says_that_the_backup_is_bad(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "answering", lambda _: object())
    with pytest.raises(SiteError, match="another nonce") as failed, trial_module.booted(tried, DISKS, str):
        raise SiteError("backup", "b1", "another nonce", "take another backup")
    assert not isinstance(failed.value, NoVerdict)


def live() -> str:
    """A desktop as libvirt has it: with an identity, and a second disk that its backup lacks."""
    root = ElementTree.fromstring(
        documents.domain(
            name="deskyard-lab.dev1",
            uuid="0f3c1e52-8a47-4c1b-9d0e-2b6a5f7c8d91",
            vcpus=2,
            memory_mib=16384,
            accelerator="kvm",
            disk="/pool/dev1.qcow2",
            disk_iops=500,
            seed="/pool/seed.iso",
            interfaces=[NIC],
            console_log="/var/log/dev1.log",
        )
    )
    root.find("memory").set("unit", "KiB")  # type: ignore[union-attr]
    root.find("memory").text = str(16 << 20)  # type: ignore[union-attr]
    for tag in ("metadata", "currentMemory"):
        ElementTree.SubElement(root, tag).text = "x"
    devices = root.find("devices")
    assert devices is not None
    second = ElementTree.fromstring(ElementTree.tostring(devices.findall("disk")[0]))
    second.find("target").set("dev", "vdc")  # type: ignore[union-attr]
    devices.append(second)
    return ElementTree.tostring(root, encoding="unicode")


def test_trial_has_restored_disks_no_nic_and_no_identity() -> None:
    tried = trial(live(), {"vda": Path("/restored/vda.raw")})
    assert tried.findtext("name") == "deskyard-lab.dev1.verify"
    assert [tried.find(tag) for tag in ("uuid", "metadata", "currentMemory")] == [None] * 3
    assert tried.findall("./devices/interface") == []
    disks = {
        target.get("dev"): (disk.find("source").get("file"), disk.find("driver").get("type"))  # type: ignore[union-attr]
        for disk in tried.iterfind("./devices/disk")
        if (target := disk.find("target")) is not None
    }
    assert disks == {"vda": ("/restored/vda.raw", "raw"), "vdb": ("/pool/seed.iso", "raw")}
    assert tried.find("./devices/disk/iotune") is None
    assert int(tried.findtext("memory") or 0) == MOST_MEMORY_KIB
    logs = [log.get("file") for log in tried.iterfind("./devices/*/log")]
    assert logs == ["/var/log/libvirt/qemu/deskyard-lab.dev1.verify-console.log"]
