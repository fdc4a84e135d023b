"""The files of a disk are read as they are, without booting or mounting it."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from deskyard.errors import BuildError
from deskyard.host.vm.root_file_system import RootFileSystem
from deskyard.image.store import files
from deskyard.image.store.files import PIECE, read_files
from deskyard.image.store.store import BuiltImage
from tests.unit.image.disks import raw_disk

LARGE = os.urandom(2 * PIECE + 17)
# What debugfs itself prints between files must not be taken for the next one.
TRICKY = "debugfs: cat <12>\n"
LONG_TARGET = "/" + "long/" * 20


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "etc").mkdir(parents=True)
    (folder / "deep/er/est").mkdir(parents=True)
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (folder / "etc/empty").write_text("")
    (folder / "etc/tricky").write_text(TRICKY * 3)
    (folder / "deep/er/est/a name with spaces").write_bytes(LARGE)
    (folder / "var/lib/dpkg/info").mkdir(parents=True)
    (folder / "var/lib/dpkg/info/libc6:amd64.list").write_text("/.\n/usr/lib/libc.so.6\n/usr/lib/a name\n")
    (folder / "var/lib/dpkg/info/sudo.list").write_text("/usr/bin/sudo\n")
    (folder / "run-me").write_text("#!/bin/sh\n")
    (folder / "run-me").chmod(0o4755)
    (folder / "short").symlink_to("etc/passwd")
    (folder / "long").symlink_to(LONG_TARGET)
    os.link(folder / "etc/passwd", folder / "etc/twin")
    return folder


def test_every_path_is_there_with_its_content(tree: Path, tmp_path: Path) -> None:
    found = read_files(RootFileSystem(raw_disk(tree, tmp_path / "disk.raw"))).files
    assert found.keys() - {"/lost+found"} == {f"/{path.relative_to(tree)}" for path in tree.rglob("*")}
    for path in tree.rglob("*"):
        facts = found[f"/{path.relative_to(tree)}"]
        if path.is_file() and not path.is_symlink():
            assert facts.content == hashlib.sha256(path.read_bytes()).hexdigest(), path
            assert facts.size == path.stat().st_size


def test_kind_permissions_and_targets_are_told(tree: Path, tmp_path: Path) -> None:
    found = read_files(RootFileSystem(raw_disk(tree, tmp_path / "disk.raw"))).files
    assert found["/run-me"].mode == "104755"
    assert found["/deep/er"].mode.startswith("04")
    assert found["/short"].content == "etc/passwd"
    assert found["/long"].content == hashlib.sha256(LONG_TARGET.encode()).hexdigest()
    assert found["/etc/twin"] == found["/etc/passwd"]


def test_a_disk_that_ends_early_is_an_error_and_no_difference(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = RootFileSystem(raw_disk(tree, tmp_path / "disk.raw"))
    reader = tmp_path / "reader"
    # Answers as debugfs does, but loses the last byte of what it reads.
    reader.write_text(f'#!/bin/sh\n{root.reader[0]} "$@" | head -c -1\n')
    reader.chmod(0o755)
    monkeypatch.setattr(root, "reader", [str(reader)])
    with pytest.raises(BuildError, match="could not be read to its end"):
        read_files(root)


def test_nothing_of_a_reading_is_left(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "kept"
    folder.mkdir()
    shutil.move(raw_disk(tree, tmp_path / "disk.raw"), folder / "disk.qcow2")
    built = BuiltImage("desktop", "a" * 16, folder / "disk.qcow2", {})
    assert "/etc/passwd" in files.list_files(built).files
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


def test_paths_are_known_by_the_package_that_brought_them(tree: Path, tmp_path: Path) -> None:
    found = read_files(RootFileSystem(raw_disk(tree, tmp_path / "disk.raw"))).packages
    assert found["/usr/lib/libc.so.6"] == found["/usr/lib/a name"] == "libc6"
    assert found["/usr/bin/sudo"] == "sudo"
