"""A build that would fill the disk is refused before it begins."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from deskyard.errors import HostError
from deskyard.host.places import Places, tree
from deskyard.image.build.space import require_space
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
