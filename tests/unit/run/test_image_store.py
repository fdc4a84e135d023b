"""Built images are found by the digest of their sources, whole or not at all."""

import json
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.plan.image import digest, read_image
from deskyard.run.image_store import all_built, find, image_folder, require
from deskyard.run.places import tree


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.delenv("DESKYARD_BASE", raising=False)
    return tmp_path


def put(image_digest: str, *, disk: bool = True, manifest: bool = True, built_at: str = "2026-01-01") -> Path:
    folder = image_folder("desktop", image_digest)
    folder.mkdir(parents=True)
    if disk:
        (folder / "disk.qcow2").write_bytes(b"disk")
    if manifest:
        (folder / "manifest.json").write_text(json.dumps({"built_at": built_at, "version": "1.0.0"}))
    return folder


def current(kind: str) -> str:
    return digest(read_image(tree(), "desktop"), tree(), kind)  # type: ignore[arg-type]


def test_absent_image_is_refused_with_the_command_that_builds_it() -> None:
    assert find("desktop") is None
    with pytest.raises(ConfigError) as caught:
        require("desktop")
    assert caught.value.remedy == "run ./inv image.build desktop"


@pytest.mark.parametrize("kind", ["vendor", "bootstrap"])
def test_image_of_either_base_is_found(kind: str) -> None:
    folder = put(current(kind))
    assert require("desktop").disk == folder / "disk.qcow2"


def test_image_of_the_other_base_is_not_found_when_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    put(current("bootstrap"))
    monkeypatch.setenv("DESKYARD_BASE", "vendor")
    assert find("desktop") is None


def test_image_of_older_sources_is_not_found_but_listed() -> None:
    put("0123456789abcdef")
    assert find("desktop") is None
    assert [built.digest for built in all_built("desktop")] == ["0123456789abcdef"]


@pytest.mark.parametrize(("disk", "manifest"), [(False, True), (True, False)], ids=["no disk", "no manifest"])
def test_incomplete_image_is_not_found(disk: bool, manifest: bool) -> None:
    put(current("bootstrap"), disk=disk, manifest=manifest)
    assert find("desktop") is None


def test_newest_build_is_listed_first() -> None:
    put("a" * 16, built_at="2026-01-01")
    put("b" * 16, built_at="2026-02-01")
    assert [built.digest[0] for built in all_built("desktop")] == ["b", "a"]
