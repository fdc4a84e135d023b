"""Images of other distributions and of past days' packages: what a build of them would do and is told."""

import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.errors import ConfigError
from deskyard.host.places import tree as real_tree
from deskyard.host.progress import Timings
from deskyard.image.base import artifact, base_disk, bootstrap
from deskyard.image.base.base_disk import base_digest, choose_base
from deskyard.image.base.bootstrap import apt_sources
from deskyard.image.build import build, layer, npm_packages
from deskyard.image.build import forecast as image_forecast
from deskyard.image.build import variables as build_variables
from deskyard.image.build.forecast import forecast
from deskyard.image.store import store
from deskyard.model.image import Image
from deskyard.plan.image.image import BASES, BaseKind, base_image
from deskyard.plan.image.package_snapshot import snapshot_sources

DAY = "2026-10-01"
Declare = Callable[..., Image]


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Declares an image `mine` in a tree of its own."""
    folder = tmp_path / "tree"
    for part in ("ansible", "deskyard", "packer", "tests"):
        folder.mkdir(exist_ok=True)
        (folder / part).symlink_to(real_tree() / part)
    (folder / "images/mine").mkdir(parents=True)
    (folder / BASES).symlink_to(real_tree() / BASES)
    for module in (artifact, base_disk, build, build_variables, image_forecast, layer, store, npm_packages):
        monkeypatch.setattr(module, "tree", lambda: folder)
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_BASE", "auto")

    def write(base: str, snapshot: str | None = None, **values: Any) -> Image:
        declared = {"name": "mine", "version": "1.0.0", "description": "Mine.", "disk_gib": 8}
        start = {"name": base, **({"snapshot": date.fromisoformat(snapshot)} if snapshot else {})}
        roles = ["guest_base", "browser", "image_hygiene"]
        text = yaml.safe_dump({**declared, "base": start, "roles": roles, **values})
        (folder / "images/mine/image.yaml").write_text(text)
        return base_image(folder, "mine")

    return write


def variables(image: Image, tmp_path: Path, kind: BaseKind = "vendor") -> dict[str, Any]:
    return build_variables.ansible_variables(image, kind, tmp_path, Timings())


def test_forecast_names_the_vendors_image_and_the_day(declare: Declare) -> None:
    declare("ubuntu-24.04", DAY)
    steps = forecast("mine").steps
    assert steps[0].startswith(
        "get the vendor's cloud image https://cloud-images.ubuntu.com/releases/noble/release-2026"
    )
    assert "bootstrap" not in steps[0]
    assert steps[1] == f"take packages as they were on {DAY}; the image's own sources are today's"
    assert " or " not in steps[-1]


def test_forecast_of_debian_leaves_the_choice_and_tells_of_no_day(declare: Declare) -> None:
    declare("debian-13")
    steps = forecast("mine").steps
    assert steps[0].endswith("if its server answers, else bootstrap the base disk from packages")
    assert not [step for step in steps if "packages as they were" in step]


def test_bootstrapping_what_cannot_be_is_refused_before_anything_is_touched(
    declare: Declare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    image = declare("ubuntu-22.04")
    with pytest.raises(ConfigError, match="cannot be bootstrapped"):
        forecast("mine")
    with pytest.raises(ConfigError, match="cannot be bootstrapped"):
        choose_base(image, "bootstrap")
    assert not (tmp_path / "home").exists()


def test_ubuntu_is_built_from_the_vendors_image_without_asking_the_network(
    declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str) -> bool:
        raise AssertionError(url)

    monkeypatch.setattr(base_disk, "is_reachable", refuse)
    assert choose_base(declare("ubuntu-24.04"), "auto") == "vendor"


def test_roles_are_told_of_the_base_and_of_the_day(declare: Declare, tmp_path: Path) -> None:
    image = declare("ubuntu-24.04", DAY)
    output = variables(image, tmp_path)
    assert output["browser_kind"] == "chrome"
    assert output["package_snapshot_sources"] == snapshot_sources(image.base)
    plain = variables(declare("debian-13"), tmp_path)
    assert set(plain) == {"image_name", "image_roles", "guest_base_refresh_packages", "guest_base_upgrade_packages"}


def test_what_a_vendors_disk_brought_is_upgraded_and_a_bootstrapped_one_needs_no_network(
    declare: Declare, tmp_path: Path
) -> None:
    output = variables(declare("ubuntu-24.04"), tmp_path)
    assert (output["guest_base_refresh_packages"], output["guest_base_upgrade_packages"]) == (True, True)
    plain = variables(declare("debian-13"), tmp_path, "bootstrap")
    assert (plain["guest_base_refresh_packages"], plain["guest_base_upgrade_packages"]) == (False, False)


def test_manifest_tells_the_distribution_and_the_day(declare: Declare) -> None:
    assert build._origin(declare("debian-13")) == {"distribution": "debian-13"}
    assert build._origin(declare("ubuntu-22.04", DAY)) == {"distribution": "ubuntu-22.04", "snapshot": DAY}


def test_day_is_part_of_a_bootstrapped_disk_and_not_of_the_vendors(declare: Declare) -> None:
    today, past = declare("debian-13"), declare("debian-13", DAY)
    assert base_digest(today, "bootstrap") != base_digest(past, "bootstrap")
    assert base_digest(today, "vendor") == base_digest(past, "vendor")


def test_bootstrapped_disk_is_made_of_past_packages_and_has_ordinary_sources(
    declare: Declare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = declare("debian-13", DAY)
    asked: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "run", lambda argv, **_: asked.append(argv))
    monkeypatch.setattr(bootstrap, "_partition", lambda *_: None)
    monkeypatch.setattr(bootstrap, "_fill", lambda *_: None)
    monkeypatch.setattr(bootstrap, "_install_grub", lambda *_: None)
    past = snapshot_sources(image.base, signed=False)
    bootstrap.bootstrap_disk(image.base.bootstrap, ["linux"], 8, tmp_path, tmp_path / "disk.qcow2", past)
    assert asked[0][-len(past) :] == past
    hook = next(part for part in asked[0] if "sources.list" in part).removeprefix("--customize-hook=")
    (tmp_path / "etc/apt").mkdir(parents=True)
    subprocess.run(["sh", "-ec", hook, "sh", str(tmp_path)], check=True, timeout=30)
    assert (tmp_path / "etc/apt/sources.list").read_text().splitlines() == apt_sources(image.base.bootstrap)

    asked.clear()
    bootstrap.bootstrap_disk(image.base.bootstrap, ["linux"], 8, tmp_path, tmp_path / "disk.qcow2")
    assert asked[0][-3:] == apt_sources(image.base.bootstrap)
    assert not [part for part in asked[0] if "sources.list" in part]


def test_program_without_a_source_is_the_release_or_nothing(
    declare: Declare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    release = {"url": "https://example.org/ttyd", "sha256": "1" * 64}
    image = declare("ubuntu-24.04", artifacts=[{"name": "ttyd", "version": "1.0.0", "release": release}])
    fetched: list[str] = []

    def fetch(url: str, destination: Path, **_pinned: str) -> None:
        fetched.append(url)
        destination.write_text("program")

    monkeypatch.setattr(artifact, "fetch", fetch)
    assert (artifact.get_artifacts(image, Timings()) / "ttyd").read_text() == "program"
    assert fetched == ["https://example.org/ttyd"]
