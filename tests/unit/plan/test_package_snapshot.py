"""Packages of a day that is over come from that day's archives, and only if a day is named."""

from datetime import date
from pathlib import Path

import pytest

from deskyard.host.places import tree
from deskyard.model.image_base import Base
from deskyard.plan.image.image import BASES, base_image, read_image
from deskyard.plan.image.inputs import input_files
from deskyard.plan.image.lineage import read_lineage
from deskyard.plan.image.package_snapshot import snapshot_sources, snapshot_variables

DAY = date(2026, 10, 1)
DEBIAN = "[check-valid-until=no signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] https://snapshot.debian.org/archive"
UBUNTU = (
    "[check-valid-until=no signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] https://snapshot.ubuntu.com/ubuntu"
)


def base(name: str, snapshot: date | None = DAY) -> Base:
    declared = Base.read(tree() / BASES / f"{name}.yaml")
    return declared.model_copy(update={"snapshot": snapshot})


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        (
            "debian-13",
            [
                f"deb {DEBIAN}/debian/20261001T000000Z/ trixie main",
                f"deb {DEBIAN}/debian/20261001T000000Z/ trixie-updates main",
                f"deb {DEBIAN}/debian-security/20261001T000000Z/ trixie-security main",
            ],
        ),
        (
            "ubuntu-24.04",
            [
                f"deb {UBUNTU}/20261001T000000Z/ noble main universe",
                f"deb {UBUNTU}/20261001T000000Z/ noble-updates main universe",
                f"deb {UBUNTU}/20261001T000000Z/ noble-security main universe",
            ],
        ),
    ],
)
def test_sources_are_those_of_the_day(name: str, sources: list[str]) -> None:
    assert snapshot_sources(base(name)) == sources
    assert snapshot_variables(base(name)) == {"package_snapshot_sources": sources}


def test_code_name_follows_the_release() -> None:
    assert all(" jammy" in line for line in snapshot_sources(base("ubuntu-22.04")))


def test_unsigned_form_leaves_the_key_to_whom_it_is_handed() -> None:
    assert [line for line in snapshot_sources(base("debian-13"), signed=False) if "signed-by" in line] == []


@pytest.mark.parametrize("name", ["debian-13", "ubuntu-22.04", "ubuntu-24.04"])
def test_without_a_day_nothing_is_told(name: str) -> None:
    assert snapshot_sources(base(name, None)) == []
    assert snapshot_variables(base(name, None)) == {}


@pytest.mark.parametrize("name", ["desktop", "gateway"])
def test_images_have_no_snapshot_by_default(name: str) -> None:
    assert base_image(tree(), name).base.snapshot is None
    names = {str(path.relative_to(tree())) for path in input_files(read_image(tree(), name), tree())}
    assert f"{BASES}/debian-13.yaml" in names
    assert not [path for path in names if "package_snapshot" in path or "ubuntu" in path]


def test_day_is_part_of_the_digest(tmp_path: Path) -> None:
    for part in ("ansible", "deskyard", "packer", "viewer"):
        (tmp_path / part).symlink_to(tree() / part)
    folder = tmp_path / "images/desktop"
    folder.mkdir(parents=True)
    (tmp_path / BASES).symlink_to(tree() / BASES)
    declared = (tree() / "images/desktop/image.yaml").read_text()
    found = set()
    for day in ("", "  snapshot: 2026-10-01\n", "  snapshot: 2026-10-02\n"):
        (folder / "image.yaml").write_text(declared.replace("  name: debian-13\n", f"  name: debian-13\n{day}"))
        lineage = read_lineage(tmp_path, "desktop")
        found.add(lineage.digest("bootstrap"))
        assert ("ansible/roles/package_snapshot/tasks/main.yml" in lineage.inputs) == bool(day)
    assert len(found) == 3
