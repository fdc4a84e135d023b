"""Which program is taken, and that a wrong one never is."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.errors import ConfigError, HostError
from deskyard.toolchain import TOOLS, find, finder, get, locate
from deskyard.toolchain.release import download
from deskyard.toolchain.tool import Release


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PATH of one folder, an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    locate.cache_clear()
    yield folder
    locate.cache_clear()


def put(folder: Path, version: str) -> Path:
    program = folder / "packer"
    program.write_text(f"#!/bin/sh\necho 'Packer v{version}'\n")
    program.chmod(0o755)
    return program


def archive_of(tmp_path: Path, name: str) -> Path:
    path = tmp_path / "release.tar.gz"
    with tarfile.open(path, "w:gz") as pack:
        for member in (name, f"{Path(name).parent}/neighbour"):
            body = b"#!/bin/sh\necho v1.8.6\n"
            info = tarfile.TarInfo(member)
            info.size = len(body)
            pack.addfile(info, io.BytesIO(body))
    return path


def test_a_good_version_on_path_is_taken(alone: Path) -> None:
    program = put(alone, "1.8.3")
    assert locate("packer") == program


@pytest.mark.parametrize("version", ["1.5.0", "1.10.1", "2.0.0"])
def test_a_version_out_of_bounds_on_path_is_not_taken(alone: Path, version: str) -> None:
    put(alone, version)
    assert find("packer") is None


def test_a_missing_tool_names_the_command_that_gets_it() -> None:
    with pytest.raises(HostError, match=r"toolchain\.get --tool packer"):
        locate("packer")


def test_an_unknown_tool_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="pulumi, packer"):
        find("terraform")


def test_a_release_is_unpacked_with_its_neighbours(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, "pulumi/pulumi")
    release = Release(archive.as_uri(), hashlib.sha256(archive.read_bytes()).hexdigest(), "pulumi/pulumi")
    program = download(release, tmp_path / "cache/pulumi-1-release")
    assert program == tmp_path / "cache/pulumi-1-release/pulumi"
    assert (program.parent / "neighbour").exists()


def test_a_release_with_another_checksum_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, "pulumi/pulumi")
    with pytest.raises(HostError, match="pinned is 0000"):
        download(Release(archive.as_uri(), "0" * 64, "pulumi/pulumi"), tmp_path / "cache/pulumi-1-release")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_unreachable_release_says_so(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be had"):
        download(Release((tmp_path / "absent").as_uri(), "0" * 64, "x"), tmp_path / "cache/x")


def test_when_every_way_fails_the_error_says_what_each_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise HostError("way", None, "closed", "open it")

    for way in ("_from_release", "_from_go", "_from_distribution"):
        monkeypatch.setattr(finder, way, refuse)
    with pytest.raises(HostError, match="official release: closed\nGo modules: closed\ndistribution: closed"):
        get("packer")


def test_the_pinned_version_of_each_tool_is_one_that_would_be_accepted() -> None:
    for tool in TOOLS.values():
        assert tool.minimum <= tuple(int(part) for part in tool.version.split(".")) < tool.below
