"""The build of a custom image: from what, with what, and what is built first."""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import BuildError, ConfigError, HostError
from deskyard.host.command import run
from deskyard.host.places import places
from deskyard.host.places import tree as real_tree
from deskyard.image.base.base_disk import BaseDisk
from deskyard.image.build import build as image_build
from deskyard.image.build import forecast as image_forecast
from deskyard.image.build import layer, new, npm_packages
from deskyard.image.build import variables as build_variables
from deskyard.image.build.forecast import forecast
from deskyard.image.build.packer import PackerBuild
from deskyard.image.check import suites
from deskyard.image.check.inventory import Inventory
from deskyard.image.check.suites import Verdict
from deskyard.image.store import store
from deskyard.image.store.seal import verify
from deskyard.model.image import AnyImage, CustomImage
from deskyard.plan.image import lineage
from deskyard.plan.image.image import base_image, read_image
from deskyard.plan.image.inputs import inputs


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with a custom image `mine`, and a store of its own."""
    folder = tmp_path / "tree"
    for name in ("bases", "desktop", "gateway"):
        shutil.copytree(real_tree() / "images" / name, folder / "images" / name)
    for part in ("ansible", "deskyard", "packer", "tests", "viewer"):
        (folder / part).symlink_to(real_tree() / part)
    for module in (image_build, build_variables, image_forecast, layer, new, store, suites, npm_packages):
        monkeypatch.setattr(module, "tree", lambda: folder)
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    new.new("mine")
    return folder


@pytest.fixture
def builds(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> list[PackerBuild]:
    """Packer's runs, which make a small disk; `fail` in the name of an image makes its tests fail."""
    seen: list[PackerBuild] = []

    def packer(self: PackerBuild) -> Path:
        seen.append(self)
        disk = self.scratch / "disk.qcow2"
        run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), "10G"], timeout=30)
        return disk

    def check(image: Any, *_: Any, **_named: Any) -> Verdict:
        if "fail" in image.name:
            raise BuildError("image", image.name, "broke", "mend it")
        return Verdict(Inventory({"id": "debian", "version": "13"}, {"sudo": "1"}, {"sudo": "amd64"}), 1.0)

    monkeypatch.setattr(image_build, "get_base", lambda *_: BaseDisk("bootstrap", "b" * 16, tmp_path / "base.qcow2"))
    monkeypatch.setattr(build_variables, "get_artifacts", lambda *_: tmp_path)
    monkeypatch.setattr(image_build, "accelerator", lambda _: "tcg")
    monkeypatch.setattr(image_build, "check_image", check)
    monkeypatch.setattr(image_build, "_tool_versions", lambda: {"packer": "1.0.0"})
    monkeypatch.setattr(image_build, "_git_commit", lambda: "abc")
    monkeypatch.setattr(PackerBuild, "run", packer)
    return seen


def names(builds: list[PackerBuild]) -> list[str]:
    return [build.variables["image_name"] for build in builds]


def test_a_missing_packer_is_found_before_anything_is_made(
    builds: list[PackerBuild], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(tool: str) -> None:
        raise HostError("tool", tool, "is not on this machine", "run ./inv toolchain.get")

    monkeypatch.setattr(image_build, "locate", missing)
    monkeypatch.setattr(image_build, "get_base", lambda *_: pytest.fail("a base disk is made"))
    with pytest.raises(HostError, match="packer"):
        image_build.build("mine")
    assert builds == []


def test_image_that_it_starts_from_is_built_first_and_once(tree: Path, builds: list[PackerBuild]) -> None:
    assert forecast("mine").steps[0] == "build image desktop first: it was never built here"
    built = image_build.build("mine")
    assert names(builds) == ["desktop", "mine"]
    assert store.find("mine") == built
    assert verify("mine").passed
    desktop = store.require("desktop")
    assert (built.manifest["from"], built.manifest["base"]["digest"]) == ("desktop", desktop.digest)
    assert built.manifest["artifacts"] == desktop.manifest["artifacts"] != {}
    image_build.build("mine")
    assert names(builds) == ["desktop", "mine"]


def test_own_change_builds_it_alone(tree: Path, builds: list[PackerBuild]) -> None:
    image_build.build("mine")
    (tree / "images/mine/files/usr/local/share/doc/mine/about.txt").write_text("changed")
    found = forecast("mine")
    assert [(change.kind, change.change) for change in found.changes] == [("file", "changed")]
    assert found.steps[0] == f"start from the disk of image desktop {store.require('desktop').digest}"
    image_build.build("mine")
    assert names(builds) == ["desktop", "mine", "mine"]


def test_change_of_what_it_starts_from_builds_both(tree: Path, builds: list[PackerBuild]) -> None:
    image_build.build("mine")
    with (tree / "images/desktop/image.yaml").open("a") as file:
        file.write("# changed\n")
    found = forecast("mine")
    assert [change.path for change in found.changes] == ["images/desktop/image.yaml"]
    assert found.steps[0].startswith("build image desktop first: 1 of")
    image_build.build("mine")
    assert names(builds) == ["desktop", "mine", "desktop", "mine"]


def test_forced_build_builds_it_alone(tree: Path, builds: list[PackerBuild]) -> None:
    image_build.build("mine")
    image_build.build("mine", force=True)
    assert names(builds) == ["desktop", "mine", "mine"]


def test_failed_build_leaves_what_it_starts_from_and_nothing_else(tree: Path, builds: list[PackerBuild]) -> None:
    new.new("fails")
    with pytest.raises(BuildError):
        image_build.build("fails")
    assert store.find("fails") is None
    assert store.find("desktop") is not None
    assert [path.name for path in places().images.iterdir() if path.name[0] != "."] == ["desktop"]


def test_image_without_tests_of_its_roles_is_refused_before_anything_is_built(
    tree: Path, builds: list[PackerBuild]
) -> None:
    declaration = tree / "images/mine/image.yaml"
    declaration.write_text(declaration.read_text() + "roles: [own]\n")
    (tree / "images/mine/roles/own/tasks").mkdir(parents=True)
    (tree / "images/mine/roles/own/tasks/main.yml").write_text("[]")
    (tree / "images/mine/tests/test_mine.py").unlink()
    for attempt in (image_build.build, forecast):
        with pytest.raises(ConfigError, match="has no tests"):
            attempt("mine")
    assert builds == []


def test_build_starts_from_the_finished_disk_and_never_writes_it(
    tree: Path, builds: list[PackerBuild], monkeypatch: pytest.MonkeyPatch
) -> None:
    desktop = image_build.build("desktop")
    before = desktop.disk.read_bytes()
    seen: dict[str, Any] = {}

    def look(self: PackerBuild) -> Path:
        shown = run(["qemu-img", "info", "--output=json", str(self.base_disk)], timeout=30).stdout
        seen.update(json.loads(shown))
        disk = self.scratch / "disk.qcow2"
        run(["qemu-img", "convert", "-O", "qcow2", str(self.base_disk), str(disk)], timeout=60)
        assert (self.from_image, self.own_roles) == (True, None)
        return disk

    monkeypatch.setattr(PackerBuild, "run", look)
    declaration = tree / "images/mine/image.yaml"
    declaration.write_text(declaration.read_text().replace("# disk_gib: 20", "disk_gib: 12"))
    built = image_build.build("mine")
    assert (seen["backing-filename"], seen["virtual-size"]) == (str(desktop.disk), 12 << 30)
    shown = json.loads(run(["qemu-img", "info", "--output=json", str(built.disk)], timeout=30).stdout)
    assert shown["virtual-size"] == 12 << 30
    assert "backing-filename" not in shown
    assert desktop.disk.read_bytes() == before


def variables(tree: Path, scratch: Path) -> dict[str, Any]:
    image = read_image(tree, "mine")
    assert isinstance(image, CustomImage)
    return layer.layer_variables(image, base_image(tree, "mine").base, scratch)


def test_roles_are_told_packages_and_files(tree: Path, tmp_path: Path) -> None:
    assert variables(tree, tmp_path) == {
        "image_name": "mine",
        "image_roles": ["image_layer"],
        "image_layer_refresh_packages": True,
        "image_layer_packages": ["jq"],
        "image_layer_archive": str(tmp_path / "files.tar"),
    }


def test_files_are_roots_with_their_modes_whoever_has_them_here(tree: Path, tmp_path: Path) -> None:
    files = tree / "images/mine/files"
    (files / "bin").mkdir()
    (files / "bin/tool").write_text("#!/bin/sh\n")
    (files / "bin/tool").chmod(0o775)
    (files / "bin/again").symlink_to("tool")
    (files / "empty").mkdir()
    if os.geteuid() == 0:
        os.chown(files / "bin/tool", 1234, 1234)
    variables(tree, tmp_path)
    first = (tmp_path / "files.tar").read_bytes()
    with tarfile.open(tmp_path / "files.tar") as archive:
        members = {member.name: member for member in archive.getmembers()}
    assert members.keys() == {"bin/tool", "bin/again", "usr/local/share/doc/mine/about.txt"}
    tool = members["bin/tool"]
    assert (tool.uid, tool.gid, tool.uname, tool.mode) == (0, 0, "root", 0o755)
    assert members["bin/again"].linkname == "tool"
    os.utime(files / "bin/tool", (1, 1))
    variables(tree, tmp_path)
    assert (tmp_path / "files.tar").read_bytes() == first


def test_archive_leaves_folders_that_are_there_as_they_are(tree: Path, tmp_path: Path) -> None:
    (target := tmp_path / "root/usr").mkdir(parents=True)
    target.chmod(0o700)
    (real := tmp_path / "root/real").mkdir()
    (target / "local").symlink_to(real)
    variables(tree, tmp_path)
    subprocess.run(["tar", "-x", "-C", str(tmp_path / "root"), "-f", str(tmp_path / "files.tar")], check=True)
    assert target.stat().st_mode & 0o777 == 0o700
    assert (real / "share/doc/mine/about.txt").is_file()


def test_own_roles_are_named_only_if_one_is_used(tree: Path) -> None:
    image = read_image(tree, "mine")
    assert isinstance(image, CustomImage)
    assert layer.own_roles(image) is None
    (tree / "images/mine/roles/own/tasks").mkdir(parents=True)
    (tree / "images/mine/roles/own/tasks/main.yml").write_text("[]")
    assert layer.own_roles(image.model_copy(update={"roles": ("browser", "own")})) == tree / "images/mine/roles"
    assert layer.own_roles(image.model_copy(update={"roles": ("browser",)})) is None


def test_roles_get_their_variables_and_start_no_service(tree: Path, tmp_path: Path) -> None:
    declaration = tree / "images/mine/image.yaml"
    declaration.write_text(declaration.read_text() + "roles: [editor]\nvariables: {editor_kind: vscode}\n")
    image = read_image(tree, "mine")
    assert isinstance(image, CustomImage)
    variables = layer.layer_variables(image, base_image(tree, "mine").base, tmp_path)
    assert variables["image_roles"] == ["image_layer", "editor"]
    assert (variables["editor_kind"], variables["editor_start"]) == ("vscode", False)


def test_address_of_a_mirror_that_cannot_be_is_refused_before_anything_is_built(
    tree: Path, builds: list[PackerBuild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKYARD_NPM_REGISTRY", "npm.example.com")
    with pytest.raises(ConfigError, match="no address of a registry"):
        image_build.build("mine")
    assert builds == []


def test_build_gets_the_mirrors_that_the_user_named_and_the_image_it_starts_from_does_not(
    tree: Path, builds: list[PackerBuild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKYARD_NPM_REGISTRY", "https://npm.example.com/")
    image_build.build("mine")
    assert [build.network.npm_registry for build in builds] == ["", "https://npm.example.com/"]


@pytest.mark.parametrize("edited", ["mine/image.yaml", "mine/files/usr/local/share/doc/mine/about.txt", None])
def test_sources_edited_while_the_image_it_starts_from_is_built_spoil_it(
    tree: Path, builds: list[PackerBuild], monkeypatch: pytest.MonkeyPatch, edited: str | None
) -> None:
    make_disk = PackerBuild.run

    def edit_beside(self: PackerBuild) -> Path:
        if self.variables["image_name"] == "desktop" and edited:
            path = tree / "images" / edited
            path.write_text(path.read_text().replace("jq", "hello") + "# edited\n")
        return make_disk(self)

    monkeypatch.setattr(PackerBuild, "run", edit_beside)
    if edited:
        with pytest.raises(BuildError, match="changed during the build"):
            image_build.build("mine")
        assert names(builds) == ["desktop"]
        assert store.find("mine") is None
    image_build.build("mine")
    assert names(builds) == ["desktop", "mine"]
    declared = read_image(tree, "mine")
    assert isinstance(declared, CustomImage)
    assert builds[1].variables["image_layer_packages"] == list(declared.packages)


def test_build_and_forecast_read_the_tree_once_and_a_build_again_to_see_that_nothing_changed(
    tree: Path, builds: list[PackerBuild], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reading serves an image and what it starts from."""
    read: list[str] = []

    def noting(image: AnyImage, *arguments: Any) -> dict[str, str]:
        read.append(image.name)
        return inputs(image, *arguments)

    monkeypatch.setattr(lineage, "inputs", noting)
    forecast("mine")
    assert read == ["desktop", "mine"]
    read.clear()
    image_build.build("mine")
    both = ["desktop", "mine"]
    # Of desktop after Packer and before the seal; of mine before Packer, too, after what desktop took.
    assert read == [*both, "desktop", "desktop", *both, *both, *both]
    read.clear()
    image_build.build("mine")
    forecast("mine")
    assert read == [*both, *both]
