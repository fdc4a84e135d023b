"""A system disk of libvirt gives its name to no other file while memory is kept, or where this process may not."""

import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import libvirt
import pytest

from deskyard.errors import SiteError
from deskyard.site.libvirt import daemon, power, storage, system_disk
from deskyard.site.libvirt.system_disk import LibvirtSystemDisk
from tests.support.other_account import said_by_another
from tests.unit.site.driver import NAME, Domain, running


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Domain]:
    """A running domain of its own."""
    with running(monkeypatch) as found:
        yield found


@pytest.fixture
def disk(domain: Domain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LibvirtSystemDisk:
    """Its system disk, with another that waits and one that is kept."""
    monkeypatch.setattr(system_disk, "POOL_PATH", str(tmp_path))
    monkeypatch.setattr(daemon, "connection", lambda: nullcontext(domain.connect()))
    monkeypatch.setattr(system_disk, "alone", lambda _: nullcontext())
    monkeypatch.setattr(storage, "pool", lambda link: link.storagePoolLookupByName("default-pool"))
    for name in (NAME, f"{NAME}.next", f"{NAME}.before"):
        (tmp_path / f"{name}.qcow2").write_text(name)
    return LibvirtSystemDisk(NAME)


def content(tmp_path: Path) -> str:
    return (tmp_path / f"{NAME}.qcow2").read_text()


@pytest.mark.parametrize("exchange", ["swap", "swap_back"])
def test_disk_whose_memory_is_on_disk_stays(
    domain: Domain, disk: LibvirtSystemDisk, tmp_path: Path, exchange: str
) -> None:
    power.pause(domain, to_disk=True)
    with pytest.raises(SiteError, match="its memory is kept, which belongs to the disk that it has"):
        getattr(disk, exchange)()
    assert content(tmp_path) == NAME
    power.shut_down(domain, force=True)
    getattr(disk, exchange)()
    assert content(tmp_path) == f"{NAME}.{'next' if exchange == 'swap' else 'before'}"


def test_disk_of_a_domain_that_is_not_defined_is_exchanged(
    domain: Domain, disk: LibvirtSystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_domain", "lab-another")
    disk.swap()
    assert content(tmp_path) == f"{NAME}.next"


def test_what_libvirt_says_behind_the_exchange_is_an_error_with_a_remedy(
    disk: LibvirtSystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise libvirt.libvirtError("the pool is gone")

    monkeypatch.setattr(storage, "refresh", fail)
    with pytest.raises(SiteError, match="libvirt: the pool is gone"):
        disk.swap()


def test_whoever_may_not_write_into_the_folder_is_told_before_anything_is_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        monkeypatch.setattr(system_disk, "POOL_PATH", name)
        disk = LibvirtSystemDisk(NAME)
        disk.require_exchangeable()
        folder.chmod(0o711)

        def ask() -> str:
            try:
                disk.require_exchangeable()
            except SiteError as error:
                return f"{error.reason}; {error.remedy}"
            return ""

        said = said_by_another(ask, lambda: folder.chmod(0o511))
        folder.chmod(0o711)
        assert said.startswith("its folder belongs to root")
        assert "run it again as root" in said
