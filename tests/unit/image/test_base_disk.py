"""Which base disk a build starts from."""

from pathlib import Path

import pytest

from deskyard.errors import ConfigError, HostError
from deskyard.host.places import tree
from deskyard.host.progress import Timings
from deskyard.image.base import base_disk
from deskyard.image.base.base_disk import base_choice, base_digest, choose_base, get_base
from deskyard.model.image import Image
from deskyard.plan.image.image import base_image


@pytest.fixture
def image() -> Image:
    return base_image(tree(), "desktop")


def test_choice_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DESKYARD_BASE", raising=False)
    assert base_choice() == "auto"
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    assert base_choice() == "bootstrap"
    monkeypatch.setenv("DESKYARD_BASE", "floppy")
    with pytest.raises(ConfigError, match="floppy"):
        base_choice()


@pytest.mark.parametrize(("reachable", "kind"), [(True, "vendor"), (False, "bootstrap")])
def test_auto_takes_the_vendor_if_it_answers(
    image: Image, monkeypatch: pytest.MonkeyPatch, reachable: bool, kind: str
) -> None:
    monkeypatch.setattr(base_disk, "is_reachable", lambda url: reachable)
    assert choose_base(image, "auto") == kind


def test_asked_for_base_is_taken_without_asking_the_network(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str) -> bool:
        raise AssertionError(url)

    monkeypatch.setattr(base_disk, "is_reachable", refuse)
    assert choose_base(image, "vendor") == "vendor"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The kinds of base disks that were made, in an empty cache."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    kinds: list[str] = []

    def make(_image: Image, kind: str, _scratch: Path, destination: Path, _timings: Timings) -> None:
        kinds.append(kind)
        destination.write_bytes(b"disk %d" % len(kinds))

    monkeypatch.setattr(base_disk, "_make", make)
    return kinds


def test_cached_base_is_not_made_again(image: Image, made: list[str]) -> None:
    first = get_base(image, "bootstrap", Timings())
    assert get_base(image, "bootstrap", Timings()) == first
    assert made == ["bootstrap"]


def test_bootstrapped_base_is_made_anew_when_asked(image: Image, made: list[str]) -> None:
    first = get_base(image, "bootstrap", Timings())
    assert get_base(image, "bootstrap", Timings(), anew=True) == first
    assert made == ["bootstrap", "bootstrap"]
    assert first.disk.read_bytes() == b"disk 2"


def test_vendors_base_stays_as_its_checksum_says(image: Image, made: list[str]) -> None:
    get_base(image, "vendor", Timings())
    get_base(image, "vendor", Timings(), anew=True)
    assert made == ["vendor"]


def test_failed_base_leaves_nothing(image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))

    def fail(_image: Image, _kind: str, _scratch: Path, destination: Path, _timings: Timings) -> None:
        destination.write_bytes(b"half")
        raise HostError("download", "x", "broke off", "try again")

    monkeypatch.setattr(base_disk, "_make", fail)
    with pytest.raises(HostError):
        get_base(image, "bootstrap", Timings())
    assert list((tmp_path / "cache/bases").iterdir()) == []


def test_digest_of_the_vendors_disk_is_that_of_its_checksum(image: Image) -> None:
    assert base_digest(image, "vendor") != base_digest(image, "bootstrap")
    assert base_digest(image, "vendor") == base_digest(image, "vendor")
