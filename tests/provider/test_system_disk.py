"""A system disk gives its name to another one and gets it back, under libvirt's eyes."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.errors import SiteError
from deskyard.host.vm.accelerator import accelerator
from deskyard.plan.image.source import ImageSource
from deskyard.site.libvirt import daemon, storage
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.site.libvirt.system_disk import LibvirtSystemDisk

pytestmark = pytest.mark.vm

DOMAIN = "deskyard-test.exchange"
DISK = Path(POOL_PATH, f"{DOMAIN}.qcow2")


def image(folder: Path, digest: str) -> ImageSource:
    """An image that begins with its own digest."""
    raw = folder / f"{digest}.raw"
    raw.write_bytes(digest.encode().ljust(1 << 20, b"\0"))
    disk = folder / f"{digest}.qcow2"
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, disk], check=True, timeout=60)
    return ImageSource("exchange", digest, str(disk))


def content() -> str:
    """What the disk begins with, read through its overlay."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        argv = ["qemu-img", "dd", "-f", "qcow2", "-O", "raw", "bs=64", "count=1", f"if={DISK}", f"of={raw}"]
        subprocess.run(argv, check=True, timeout=60)
        return raw.read_bytes().rstrip(b"\0").decode()


def size() -> int:
    argv = ["qemu-img", "info", "--output=json", str(DISK)]
    found = json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=60).stdout)
    return int(found["virtual-size"]) >> 30


def left() -> set[str]:
    """The files of the test in the pool."""
    return {path.name for path in Path(POOL_PATH).iterdir() if "exchange" in path.name}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LibvirtSystemDisk]:
    """A disk of the image `old`; nothing is left of it."""
    daemon.up(accelerator("auto"))
    with daemon.connection() as link:
        old = image(tmp_path, "01d")
        storage.overlay(link, DISK.name, image=old.name, digest=old.digest, source=Path(old.disk), capacity=1 << 30)
    yield LibvirtSystemDisk(DOMAIN)
    with daemon.connection() as link:
        storage.remove_overlay(link, DISK.name)
    assert left() == set()


def test_disk_takes_the_place_of_another_and_gives_it_back(disk: LibvirtSystemDisk, tmp_path: Path) -> None:
    assert (disk.image(), disk.has_kept(), content()) == ("exchange-01d", False, "01d")
    disk.stage(image(tmp_path, "0e3"), 2)
    assert (disk.image(), disk.has_kept(), content()) == ("exchange-01d", False, "01d")
    disk.swap()
    assert (disk.image(), disk.has_kept(), content(), size()) == ("exchange-0e3", True, "0e3", 2)
    disk.swap_back()
    assert (disk.image(), disk.has_kept(), content(), size()) == ("exchange-01d", False, "01d", 1)


def test_forgotten_disk_takes_its_image_along(disk: LibvirtSystemDisk, tmp_path: Path) -> None:
    disk.stage(image(tmp_path, "0e3"), 1)
    disk.swap()
    assert "exchange-01d.qcow2" in left()
    disk.forget()
    assert left() == {DISK.name, "exchange-0e3.qcow2", "exchange-0e3.complete"}


def test_disk_that_gave_its_place_back_leaves_no_image(disk: LibvirtSystemDisk, tmp_path: Path) -> None:
    disk.stage(image(tmp_path, "0e3"), 1)
    disk.swap()
    disk.swap_back()
    disk.forget()
    assert left() == {DISK.name, "exchange-01d.qcow2", "exchange-01d.complete"}


def test_swap_without_a_staged_disk_changes_nothing(disk: LibvirtSystemDisk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.swap()
    assert (content(), disk.has_kept()) == ("01d", False)


def test_disk_of_a_machine_that_runs_stays(
    disk: LibvirtSystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Machine:
        def name(self) -> str:
            return DOMAIN

    disk.stage(image(tmp_path, "0e3"), 1)
    monkeypatch.setattr(storage, "running_machine_with", lambda *_: Machine())
    with pytest.raises(SiteError, match="its disk stays"):
        disk.swap()
    assert content() == "01d"
