"""Which program is taken, and that a wrong one never is."""

import bz2
import hashlib
import io
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from deskyard.errors import ConfigError, HostError
from deskyard.host.command import run
from deskyard.host.toolchain import BASIC, TOOLS, find, finder, get, locate
from deskyard.host.toolchain.release import download
from deskyard.host.toolchain.tool import FoundTool, Release, Tool


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


def test_a_release_that_is_one_packed_program_is_unpacked(tmp_path: Path) -> None:
    packed = bz2.compress(b"#!/bin/sh\necho restic 0.18.1\n")
    (tmp_path / "restic.bz2").write_bytes(packed)
    release = Release((tmp_path / "restic.bz2").as_uri(), hashlib.sha256(packed).hexdigest(), "restic")
    program = download(release, tmp_path / "cache/restic-1-release")
    assert program == tmp_path / "cache/restic-1-release/restic"
    assert run([str(program)], timeout=10).stdout == "restic 0.18.1\n"


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


def test_a_way_that_lacks_a_program_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise HostError("program", "go", "is not installed", "run ./inv host.prepare")

    for way in ("_from_release", "_from_go", "_from_distribution"):
        monkeypatch.setattr(finder, way, refuse)
    with pytest.raises(HostError, match="Go modules: go is not installed\n"):
        get("packer")


def test_what_two_runs_ask_for_at_once_is_got_once(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[str] = []

    def take_a_while(tool: Tool) -> FoundTool:
        ways.append(tool.name)
        time.sleep(0.3)
        return FoundTool(tool.name, "1.8.3", "PATH", put(alone, "1.8.3"))

    monkeypatch.setattr(finder, "_from_release", take_a_while)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(get, ["packer", "packer"]))
    assert ways == ["packer"]
    assert found[0] == found[1]


def test_a_release_without_a_pinned_checksum_is_not_downloaded(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, "pulumi/pulumi")
    with pytest.raises(HostError, match="no checksum is pinned"):
        download(Release(archive.as_uri(), None, "pulumi/pulumi"), tmp_path / "cache/x")
    assert not (tmp_path / "cache").exists()


def test_the_checksum_that_a_person_trusts_counts_as_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path, "./pulumi-resource-proxmoxve")
    pinned = TOOLS["proxmoxve"]
    assert pinned.release is not None
    tool = replace(pinned, release=replace(pinned.release, url=archive.as_uri()), go_module=None)
    monkeypatch.setattr(finder, "TOOLS", {"proxmoxve": tool})
    with pytest.raises(HostError, match="no checksum is pinned"):
        get("proxmoxve")
    with pytest.raises(HostError, match="pinned is 0000"):
        get("proxmoxve", "0" * 64)
    found = get("proxmoxve", hashlib.sha256(archive.read_bytes()).hexdigest())
    assert (found.source, found.path.name) == ("release", "pulumi-resource-proxmoxve")
    assert find("proxmoxve") == found


@pytest.mark.parametrize(
    ("tool", "sha256", "reason"), [("packer", "0" * 64, "is pinned"), ("proxmoxve", "beef", "is no SHA-256")]
)
def test_a_checksum_that_is_not_asked_for_or_is_none_is_refused(tool: str, sha256: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        get(tool, sha256)


def test_a_plugin_on_path_is_taken_in_its_exact_version_only(alone: Path) -> None:
    program = alone / "pulumi-resource-proxmoxve"
    for version, expected in (("8.6.1", None), (TOOLS["proxmoxve"].version, program)):
        program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo {version}\n')
        program.chmod(0o755)
        found = find("proxmoxve")
        assert (found and found.path) == expected


def test_what_only_some_sites_need_is_got_when_it_is_named() -> None:
    assert set(BASIC) == {"pulumi", "packer"}
    assert TOOLS.keys() - set(BASIC) == {"proxmoxve", "restic"}


def test_the_pinned_version_of_each_tool_is_one_that_would_be_accepted() -> None:
    for tool in TOOLS.values():
        assert tool.minimum <= tuple(int(part) for part in tool.version.split(".")) < tool.below
