"""An image is dropped with its last overlay, and never while the list of disks is in doubt."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import libvirt
import pytest

from deskyard.site.libvirt import daemon, storage
from deskyard.site.libvirt.machines import LibvirtMachines
from tests.desktop.lab import planned


class Volume:
    """A volume of the fake pool; `backing` is the path of the image below an overlay."""

    def __init__(self, folder: Path, name: str, backing: str | None = None) -> None:
        self._path = folder / name
        self._path.touch()
        self._backing = backing

    def name(self) -> str:
        return self._path.name

    def path(self) -> str:
        return str(self._path)

    def XMLDesc(self, _: int) -> str:
        if not self._path.exists():
            raise libvirt.libvirtError("gone")
        store = f"<backingStore><path>{self._backing}</path></backingStore>" if self._backing else ""
        return f"<volume>{store}</volume>"

    def delete(self) -> None:
        self._path.unlink()


class Pool:
    """A pool that lists what it was told."""

    def __init__(self, *volumes: Volume) -> None:
        self._volumes = volumes

    def listAllVolumes(self) -> list[Volume]:
        return list(self._volumes)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(storage, "POOL_PATH", str(tmp_path))
    return tmp_path


def image(folder: Path) -> list[Volume]:
    return [Volume(folder, "desktop-1234.qcow2"), Volume(folder, "desktop-1234.complete")]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def drop(*volumes: Volume) -> None:
    pool: Any = Pool(*volumes)
    storage._drop_unused(pool)


def test_an_image_without_overlays_is_dropped_with_its_marker(folder: Path) -> None:
    drop(*image(folder))
    assert names(folder) == set()


def test_an_image_with_an_overlay_is_kept(folder: Path) -> None:
    disk = Volume(folder, "deskyard-a.desk.qcow2", str(folder / "desktop-1234.qcow2"))
    drop(*image(folder), disk)
    assert len(names(folder)) == 3


def test_an_image_is_kept_while_an_overlay_is_missing_from_the_list(folder: Path) -> None:
    Volume(folder, "deskyard-a.desk.qcow2", str(folder / "desktop-1234.qcow2"))
    drop(*image(folder))
    assert len(names(folder)) == 3


def test_a_disk_that_goes_while_it_is_looked_at_stops_the_tidying(folder: Path) -> None:
    going = Volume(folder, "deskyard-b.desk.qcow2")
    going.delete()
    drop(*image(folder), going)
    assert "desktop-1234.qcow2" in names(folder)


def test_disk_of_a_template_is_kept_with_its_image_until_the_template_is_removed(folder: Path) -> None:
    disk = Volume(folder, "template-desktop-ab12.system.qcow2", str(folder / "desktop-1234.qcow2"))
    marker = Volume(folder, "template-desktop-ab12.template")
    volumes = (*image(folder), disk, marker)
    drop(*volumes)
    assert len(names(folder)) == 4
    marker.delete()
    drop(*volumes[:-1])
    assert names(folder) == set()


def test_disk_of_a_removed_template_is_kept_while_a_machine_needs_it(folder: Path) -> None:
    disk = Volume(folder, "template-desktop-ab12.system.qcow2", str(folder / "desktop-1234.qcow2"))
    own = Volume(folder, "deskyard-a.desk.qcow2", disk.path())
    drop(*image(folder), disk, own)
    assert len(names(folder)) == 4
    own.delete()
    drop(*image(folder), disk)
    assert names(folder) == set()


@pytest.mark.parametrize("home", [True, False])
def test_sizes_of_a_machines_disks_are_those_of_its_volumes(monkeypatch: pytest.MonkeyPatch, home: bool) -> None:
    plan = planned("dev1")
    domain = plan.desktops[0].machine.domain
    volumes = {f"{domain}.qcow2": 20, **({f"{domain}.home.qcow2": 10} if home else {})}

    def lookup(_: Any, name: str) -> Any:
        size = volumes.get(name)
        return None if size is None else SimpleNamespace(info=lambda: (0, size << 30, 1))

    monkeypatch.setattr(storage, "lookup", lookup)
    monkeypatch.setattr(daemon, "connection", lambda: nullcontext(None))
    assert LibvirtMachines(plan).disk_sizes(domain) == {"/": 20, **({"/home": 10} if home else {})}
