"""A guest that does not come up leaves its console and its screen, and runs on only if it was asked for."""

import tempfile
from pathlib import Path

import pytest
from PIL import Image

from deskyard.errors import BuildError
from deskyard.host.command import run
from deskyard.host.places import places
from deskyard.host.vm import guest_boot
from deskyard.host.vm.evidence import TEST_CONSOLE, TEST_SCREEN
from deskyard.host.vm.guest_boot import boot_guest
from deskyard.host.vm.qemu import machines_below
from deskyard.host.vm.scratch import scratch_folder


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk that holds nothing: the firmware says so on the screen, and SSH never answers."""
    monkeypatch.setattr(guest_boot, "BOOT_SECONDS", {"tcg": 1})
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    places().images.mkdir(parents=True)
    run(["qemu-img", "create", "-q", "-f", "qcow2", str(tmp_path / "disk.qcow2"), "1M"], timeout=30)
    return tmp_path / "disk.qcow2"


def boot(disk: Path, *, keep: bool) -> list[str]:
    """Boot it in vain; the error, and what runs on afterwards."""
    logs = disk.parent / "logs"
    logs.mkdir()
    with (
        pytest.raises(BuildError, match="no SSH") as caught,
        scratch_folder(".test-", keep=keep) as scratch,
        boot_guest(disk, scratch / "boot", accelerator="tcg", user="nobody", memory_mib=64, logs=logs, keep=keep),
    ):
        pytest.fail("an empty disk boots")
    assert str(logs / TEST_CONSOLE) in caught.value.remedy
    assert (logs / TEST_CONSOLE).exists()
    with Image.open(logs / TEST_SCREEN) as picture:
        assert picture.format == "PNG"
    running = list(machines_below(places().images))
    for machine in running:
        machine.end()
    return [machine.folder.name for machine in running]


def test_guest_that_does_not_come_up_leaves_console_and_screen_and_no_machine(disk: Path) -> None:
    assert boot(disk, keep=False) == []
    assert list(places().images.iterdir()) == []


def test_guest_runs_on_where_it_is_to_be_kept(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert boot(disk, keep=True) == ["boot"]
    said = capsys.readouterr().err
    (folder,) = places().images.iterdir()
    assert f"ssh -F {folder}/boot/ssh_config guest" in said
    assert f"&& rm -rf {folder}" in said


def test_interrupted_guest_is_ended_even_where_it_was_to_be_kept(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(guest_boot, "_await_ssh", stop)
    with (
        pytest.raises(KeyboardInterrupt),
        scratch_folder(".test-", keep=True) as scratch,
        boot_guest(disk, scratch / "boot", accelerator="tcg", user="nobody", memory_mib=64, keep=True),
    ):
        pytest.fail("an empty disk boots")
    assert list(places().images.iterdir()) == []


def test_ssh_reaches_the_guest_of_a_folder_too_deep_for_its_socket(tmp_path: Path) -> None:
    def said(folder: Path) -> str:
        guest_boot.write_ssh_config(folder / "ssh_config", folder / "key", port=9, user="nobody")
        return run(["ssh", "-F", str(folder / "ssh_config"), "guest"], timeout=30, check=False).stderr

    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    assert "Connection refused" in said(deep)
    # What ssh says to a name that no socket can have, and where one connection is shared as ever.
    config = deep / "ssh_config"
    config.write_text(config.read_text().replace("ControlPath none", f"ControlPath {deep}/mux"))
    assert "too long" in run(["ssh", "-F", str(config), "guest"], timeout=30, check=False).stderr
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as shallow:
        assert "Connection refused" in said(Path(shallow))
        assert f"ControlPath {shallow}/mux\n" in (Path(shallow) / "ssh_config").read_text()
