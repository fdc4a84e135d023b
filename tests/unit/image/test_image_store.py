"""Built images are found by the digest of their sources, whole or not at all."""

import json
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.host.places import places, tree
from deskyard.image.store.store import all_built, choose, choose_or_open, find, image_folder, locate, require
from deskyard.plan.image.lineage import read_lineage


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.delenv("DESKYARD_BASE", raising=False)
    return tmp_path


def put(
    image_digest: str,
    *,
    disk: bool = True,
    manifest: bool = True,
    built_at: str = "2026-01-01",
    name: str = "desktop",
) -> Path:
    folder = image_folder(name, image_digest)
    folder.mkdir(parents=True)
    if disk:
        (folder / "disk.qcow2").write_bytes(b"disk")
    if manifest:
        (folder / "manifest.json").write_text(json.dumps({"built_at": built_at, "version": "1.0.0"}))
    return folder


def current(kind: str) -> str:
    return read_lineage(tree(), "desktop").digest(kind)  # type: ignore[arg-type]


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


def test_name_alone_is_the_build_of_the_current_sources_before_any_newer_one() -> None:
    put(current("bootstrap"), built_at="2026-01-01")
    put("a" * 16, built_at="2026-02-01")
    assert locate("desktop") == ("desktop", current("bootstrap"))


def test_name_alone_is_the_newest_build_where_the_current_sources_have_none() -> None:
    put("a" * 16, built_at="2026-02-01")
    put("b" * 16, built_at="2026-01-01")
    assert choose("desktop").digest == "a" * 16


def test_image_that_is_declared_no_more_is_still_found() -> None:
    put("a" * 16, name="retired")
    assert locate("retired") == ("retired", "a" * 16)


@pytest.mark.parametrize("reference", ["abcd" + "0" * 12, "abcd", "desktop@abcd" + "0" * 12, "desktop@abcd0"])
def test_build_is_chosen_by_its_digest(reference: str) -> None:
    put("abcd" + "0" * 12)
    put("a" * 16)
    assert choose(reference).digest == "abcd" + "0" * 12


def test_digest_that_two_images_share_is_chosen_by_name() -> None:
    put("a" * 16)
    put("a" * 16, name="gateway")
    assert locate("gateway@aaaa") == ("gateway", "a" * 16)
    with pytest.raises(ConfigError) as caught:
        locate("aaaa")
    assert caught.value.reason == "is more than one image"
    assert caught.value.remedy == f"choose one of: desktop@{'a' * 16}, gateway@{'a' * 16}"


@pytest.mark.parametrize("reference", ["absent", "bbbb", "aaa", "gateway@aaaa", "desktop@", "@", "", "../desktop@aaaa"])
def test_what_names_no_build_is_refused_with_those_there_are(reference: str) -> None:
    put("a" * 16)
    with pytest.raises(ConfigError, match="no image that was built here") as caught:
        locate(reference)
    assert caught.value.remedy == f"choose one of: desktop@{'a' * 16}"


def test_declared_image_without_a_build_is_refused_with_the_command_that_builds_it() -> None:
    with pytest.raises(ConfigError, match="is not built") as caught:
        locate("gateway")
    assert caught.value.remedy == "run ./inv image.build gateway"


def test_build_that_goes_on_is_no_image() -> None:
    (places().images / ".new-1234" / "finished").mkdir(parents=True)
    with pytest.raises(ConfigError, match="no image that was built here"):
        locate("finished")


def test_builds_of_which_none_is_whole_are_to_be_chosen_from() -> None:
    put("a" * 16, manifest=False)
    assert locate("desktop") == ("desktop", "a" * 16)
    put("b" * 16, manifest=False)
    with pytest.raises(ConfigError) as caught:
        locate("desktop")
    assert caught.value.remedy == f"choose one of: desktop@{'a' * 16}, desktop@{'b' * 16}"


@pytest.mark.parametrize("content", ["[]", "1", "{"])
def test_manifest_that_is_none_makes_no_image(content: str) -> None:
    (put("a" * 16) / "manifest.json").write_text(content)
    assert all_built("desktop") == []


def test_incomplete_build_is_located_but_not_chosen() -> None:
    put(current("bootstrap"), disk=False)
    assert locate("desktop") == ("desktop", current("bootstrap"))
    with pytest.raises(ConfigError, match="lacks its disk"):
        choose("desktop")


def test_a_kept_folder_is_opened_by_its_path(empty_home: Path) -> None:
    folder = empty_home / "kept"
    put("a" * 16).rename(folder)
    (folder / "manifest.json").write_text(json.dumps({"name": "desktop", "digest": "a" * 16}))
    opened = choose_or_open(str(folder))
    assert (opened.name, opened.digest, opened.disk) == ("desktop", "a" * 16, folder / "disk.qcow2")


@pytest.mark.parametrize("content", ["", "[]", "{}", "not JSON"])
def test_a_folder_without_a_build_is_refused(empty_home: Path, content: str) -> None:
    folder = empty_home / "other"
    folder.mkdir()
    (folder / "disk.qcow2").write_bytes(b"disk")
    if content:
        (folder / "manifest.json").write_text(content)
    with pytest.raises(ConfigError, match="of its build"):
        choose_or_open(str(folder))


def test_a_name_without_a_path_is_no_folder(empty_home: Path) -> None:
    folder = put(current("bootstrap"))
    assert choose_or_open("desktop").disk == folder / "disk.qcow2"
