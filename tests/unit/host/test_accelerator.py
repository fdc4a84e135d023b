"""KVM only where a kernel boots with it."""

from pathlib import Path

import pytest

from deskyard.errors import ConfigError, HostError
from deskyard.host.vm import accelerator as module
from deskyard.host.vm.accelerator import accelerator


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has the device and one disk to try."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.delenv("DESKYARD_ACCELERATOR", raising=False)
    monkeypatch.setattr(module, "DEVICE", tmp_path / "kvm")
    monkeypatch.setattr(module, "BOOT_ID", tmp_path / "boot_id")
    (tmp_path / "kvm").touch()
    (tmp_path / "boot_id").write_text("first\n")
    disk = tmp_path / "cache/bases/x/disk.qcow2"
    disk.parent.mkdir(parents=True)
    disk.touch()
    return tmp_path


def boots(monkeypatch: pytest.MonkeyPatch, answer: bool) -> list[Path]:
    tried: list[Path] = []

    def probe(disk: Path) -> bool:
        tried.append(disk)
        return answer

    monkeypatch.setattr(module, "boots_with_kvm", probe)
    return tried


@pytest.mark.parametrize(("answer", "expected"), [(True, "kvm"), (False, "tcg")])
def test_auto_believes_a_boot_once(monkeypatch: pytest.MonkeyPatch, answer: bool, expected: str) -> None:
    tried = boots(monkeypatch, answer)
    assert [accelerator("auto"), accelerator("auto")] == [expected, expected]
    assert len(tried) == 1


def test_restart_of_the_machine_forgets(monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
    tried = boots(monkeypatch, False)
    accelerator("auto")
    (machine / "boot_id").write_text("second\n")
    accelerator("auto")
    assert len(tried) == 2


def test_without_the_device_everything_is_emulated(monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
    tried = boots(monkeypatch, True)
    (machine / "kvm").unlink()
    assert accelerator("auto") == "tcg"
    assert tried == []
    with pytest.raises(HostError, match="kvm"):
        accelerator("kvm")


def test_without_a_disk_to_try_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
    boots(monkeypatch, True)
    (machine / "cache/bases/x/disk.qcow2").unlink()
    assert accelerator("auto") == "tcg"
    (machine / "cache/bases/x/disk.qcow2").touch()
    assert accelerator("auto") == "kvm"


def test_environment_overrides_auto_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    assert accelerator("auto") == "tcg"
    assert accelerator("kvm") == "kvm"
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "warp")
    with pytest.raises(ConfigError, match="warp"):
        accelerator("auto")
