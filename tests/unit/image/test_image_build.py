"""An image counts as built when everything succeeded, and not before."""

import hashlib
import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import BuildError, ConfigError, HostError
from deskyard.host import lock
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.image.base.base_disk import BaseDisk
from deskyard.image.build import build, gateway_bundle, variables
from deskyard.image.build.packer import PackerBuild
from deskyard.image.check.inventory import Inventory
from deskyard.image.check.suites import Verdict
from deskyard.image.store import store
from deskyard.image.store.seal import verify
from deskyard.image.store.signature import secret_key_file
from deskyard.plan.image.image import base_image
from deskyard.plan.image.inputs import digest_of
from deskyard.plan.image.lineage import Lineage, read_lineage


class Stages:
    """Stands for what takes minutes; notes what ran, and fails where told."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.fails: dict[str, BaseException] = {}

    def pass_through(self, stage: str) -> None:
        self.ran.append(stage)
        if stage in self.fails:
            raise self.fails[stage]


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stages:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    stages = Stages()
    base = BaseDisk("bootstrap", "b" * 16, tmp_path / "base.qcow2")

    def packer(self: Any) -> Path:
        stages.pass_through("packer")
        disk = Path(self.scratch) / "disk.qcow2"
        disk.write_bytes(b"disk")
        return disk

    def check(*_arguments: Any, **_options: Any) -> Verdict:
        stages.pass_through("tests")
        return Verdict(Inventory({"id": "debian", "version": "13"}, {"sudo": "1"}, {"sudo": "amd64"}), 1.0)

    def convert(argv: list[str], **_options: Any) -> None:
        stages.pass_through("convert")
        Path(argv[-1]).write_bytes(b"compressed")

    monkeypatch.setattr(build, "get_base", lambda *_: base)
    monkeypatch.setattr(variables, "get_artifacts", lambda *_: tmp_path)
    monkeypatch.setattr(build, "accelerator", lambda _: "tcg")
    monkeypatch.setattr(PackerBuild, "run", packer)
    monkeypatch.setattr(build, "check_image", check)
    monkeypatch.setattr(build, "run", convert)
    monkeypatch.setattr(build, "_tool_versions", lambda: {"packer": "1.0.0"})
    monkeypatch.setattr(build, "_git_commit", lambda: "abc")
    return stages


def test_built_image_is_found_and_described(stages: Stages) -> None:
    built = build.build("desktop")
    assert stages.ran == ["packer", "tests", "convert"]
    assert built == store.find("desktop")
    assert built.disk.read_bytes() == b"compressed"
    for key in ("name", "version", "digest", "sha256", "git_commit", "tools", "base", "accelerator", "seconds"):
        assert built.manifest[key]
    assert built.manifest["packages"] == {"sudo": "1"}
    assert json.loads((built.disk.parent / "manifest.json").read_text()) == built.manifest


def test_forced_build_takes_a_base_of_today_and_others_the_one_that_is_kept(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def asking(_image: Any, _kind: Any, _timings: Any, anew: bool) -> BaseDisk:
        asked.append(anew)
        return BaseDisk("bootstrap", "b" * 16, Path("/dev/null"))

    monkeypatch.setattr(build, "get_base", asking)
    for force in (False, False, True):
        build.build("desktop", force=force)
    assert asked == [False, True]


def test_bill_of_materials_lies_beside_the_manifest_that_holds_its_sum(stages: Stages) -> None:
    built = build.build("desktop")
    text = (built.disk.parent / "sbom.cdx.json").read_bytes()
    assert built.manifest["sbom"] == {"file": "sbom.cdx.json", "sha256": hashlib.sha256(text).hexdigest()}
    components = {component["name"]: component["purl"] for component in json.loads(text)["components"]}
    assert components.pop("sudo") == "pkg:deb/debian/sudo@1?arch=amd64&distro=debian-13"
    assert components.keys() == {artifact.name for artifact in base_image(tree(), "desktop").artifacts}


def test_built_image_verifies(stages: Stages) -> None:
    build.build("desktop")
    assert verify("desktop").passed


def test_key_that_cannot_sign_is_found_out_before_the_build(stages: Stages) -> None:
    secret_key_file().parent.mkdir(parents=True)
    secret_key_file().write_text("no key")
    with pytest.raises(ConfigError, match="secret key"):
        build.build("desktop")
    assert stages.ran == []


def test_unchanged_image_is_not_built_again(stages: Stages) -> None:
    build.build("desktop")
    stages.ran.clear()
    build.build("desktop")
    assert stages.ran == []


def test_force_builds_again(stages: Stages) -> None:
    build.build("desktop")
    stages.ran.clear()
    build.build("desktop", force=True)
    assert "packer" in stages.ran


@pytest.mark.parametrize("stage", ["packer", "tests", "convert"])
@pytest.mark.parametrize(
    "failure", [BuildError("image", "desktop", "broke", "mend it"), KeyboardInterrupt()], ids=["error", "ctrl-c"]
)
def test_failure_leaves_nothing_that_looks_built(stages: Stages, stage: str, failure: BaseException) -> None:
    stages.fails[stage] = failure
    with pytest.raises(type(failure)):
        build.build("desktop")
    assert store.find("desktop") is None
    assert [path.name for path in places().images.iterdir()] == []
    del stages.fails[stage]
    assert build.build("desktop").disk.is_file()


def test_failed_rebuild_keeps_the_image_that_was_there(stages: Stages) -> None:
    before = build.build("desktop")
    stages.fails["tests"] = BuildError("image", "desktop", "broke", "mend it")
    with pytest.raises(BuildError):
        build.build("desktop", force=True)
    assert store.find("desktop") == before


@pytest.mark.parametrize("force", [False, True])
def test_second_build_waits_for_the_first_and_takes_its_image_unless_forced(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, force: bool
) -> None:
    folder = build.build("desktop").disk.parent
    unfinished = folder.rename(tmp_path / "unfinished")
    stages.ran.clear()
    said: list[str] = []
    with ExitStack() as first:
        first.enter_context(alone("image-desktop"))

        def end_first(text: str) -> None:
            said.append(text.strip())
            unfinished.rename(folder)
            first.close()

        monkeypatch.setattr(lock, "say", end_first)
        assert build.build("desktop", force=force).disk.parent == folder
    assert said == ["another task builds image desktop: waiting for its end"]
    assert stages.ran == (["packer", "tests", "convert"] if force else [])


def test_sources_that_change_during_the_build_spoil_it(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    def edited(*_: Any) -> Lineage:
        found = read_lineage(*_)
        other = {**found.inputs, "ansible/image.yml": "0 " + "0" * 64}
        return replace(found, inputs=other) if "packer" in stages.ran else found

    monkeypatch.setattr(build, "read_lineage", edited)
    with pytest.raises(BuildError, match="changed"):
        build.build("desktop")
    assert store.all_built("desktop") == []


def test_manifest_records_the_inputs_that_its_digest_stands_for(stages: Stages) -> None:
    built = build.build("desktop")
    assert digest_of("desktop", "bootstrap", built.manifest["inputs"]) == built.digest


def test_manifest_of_the_gateway_names_the_npm_packages_of_its_viewer(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_bundle, "build", lambda _: None)
    assert "@novnc/novnc" in {package["name"] for package in build.build("gateway").manifest["npm"].values()}
    assert build.build("desktop").manifest["npm"] == {}


def test_failure_names_what_was_kept_of_it(stages: Stages) -> None:
    stages.fails["tests"] = BuildError("image", "desktop", "broke", "mend it")
    with pytest.raises(BuildError, match="broke\n  logs: "):
        build.build("desktop")


def test_full_disk_is_found_out_before_the_build(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **_options: Any) -> None:
        raise HostError("disk space", "/", "is full", "free some space")

    monkeypatch.setattr(build, "require_space", full)
    with pytest.raises(HostError):
        build.build("desktop")
    assert stages.ran == []
