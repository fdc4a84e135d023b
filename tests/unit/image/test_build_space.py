"""A build that would fill the disk is refused before it begins; what is large for a while is not in memory."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from deskyard.errors import HostError
from deskyard.host.command import run
from deskyard.host.places import Places, tree
from deskyard.image.build.space import large_files_on_disk, require_space
from deskyard.plan.image.image import read_image

Usage = namedtuple("Usage", "total used free")
GIB = 1 << 30


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "cache", tmp_path / "data", tmp_path / "state", tmp_path / "control")


def free(monkeypatch: pytest.MonkeyPatch, gib: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GIB, 0, int(gib * GIB)))


def test_too_little_room_is_refused_with_both_figures(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 19)
    with pytest.raises(HostError, match=r"19\.0 GiB are free.*desktop takes up to 20\.0 GiB"):
        require_space(read_image(tree(), "desktop"), places)
    assert not places.data.exists()


def test_enough_room_is_enough(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 20.5)
    require_space(read_image(tree(), "desktop"), places)


def test_base_disk_that_is_there_takes_no_room(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 10.5)
    (places.bases / "b").mkdir(parents=True)
    (places.bases / "b" / "disk.qcow2").touch()
    require_space(read_image(tree(), "desktop"), places)


SHM = Path("/dev/shm")  # a file system of its own


def test_file_system_of_temporary_files_needs_room_for_the_tree_alone(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(SHM))
    sizes = {True: 4, False: 90}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 * GIB, 0, sizes[path == SHM] * GIB))
    desktop = read_image(tree(), "desktop")
    with pytest.raises(HostError, match=r"(?s)/dev/shm.*4\.0 GiB are free.*takes up to 5\.0 GiB.*TMPDIR"):
        require_space(desktop, places)
    require_space(desktop, places, bootstraps=False)
    sizes[True] = 6
    require_space(desktop, places)


def test_programs_of_a_build_have_their_large_files_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    with large_files_on_disk():
        assert Path(run(["mktemp", "-u"], timeout=10).stdout).parent == Path("/var/tmp")
    assert Path(run(["mktemp", "-u"], timeout=10).stdout).parent == Path("/tmp")


def test_folder_for_temporary_files_that_somebody_chose_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with large_files_on_disk():
        assert Path(run(["mktemp", "-u"], timeout=10).stdout).parent == tmp_path
