"""The reader of file systems that nobody trusts, on the real debugfs and sandbox."""

import os
import subprocess
from pathlib import Path

import pytest

from deskyard.errors import HostError
from deskyard.host import sandbox
from deskyard.host.sandbox import sandboxed
from deskyard.host.vm.ext4 import ROOT, DamagedError, Entry, Ext4
from tests.support import hostile_home
from tests.support.requirements import need_programs, need_root


@pytest.fixture(autouse=True)
def able() -> None:
    """Only root can start the sandbox."""
    need_root("the sandbox takes rights away")
    need_programs("bwrap", "debugfs", "mkfs.ext4")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file system with two files, in a folder that is root's alone."""
    tree, closed = tmp_path / "tree", tmp_path / "closed"
    tree.mkdir()
    closed.mkdir(mode=0o700)
    (tree / "a").write_bytes(b"first\n" * 20_000)
    (tree / "b").write_text("second")
    os.utime(tree / "b", (5_000_000_000, 5_000_000_000))
    path = closed / "image"
    subprocess.run(["mkfs.ext4", "-q", "-d", str(tree), str(path), "8M"], check=True, timeout=60, capture_output=True)
    # mke2fs leaves out the part of a time that begins in 2038.
    hostile_home.write(path, "sif /b mtime_extra 1")
    path.chmod(0o444)
    return path


def within(image: Path, script: str) -> "subprocess.CompletedProcess[str]":
    argv = sandboxed(["/usr/bin/bash", "-c", script], image, 20)
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def names(file_system: Ext4) -> dict[bytes, Entry]:
    return {entry.name: entry for entry in file_system.folder(ROOT).entries}


def test_sandboxed_program_reads_its_file_and_is_nobody_without_rights(image: Path) -> None:
    assert within(image, f"wc -c <{sandbox.FILE}").stdout == f"{8 << 20}\n"
    assert within(image, "id -u; id -g; id -G").stdout.split() == [sandbox.NOBODY] * 3
    rights = within(image, "setpriv --dump").stdout
    assert "no_new_privs: 1" in rights
    assert "Capability bounding set: [none]" in rights


@pytest.mark.parametrize(
    "script",
    [
        f"echo x >>{sandbox.FILE}",
        "echo x >/tmp/x || echo x >/x || echo x >/usr/x",
        "cat /etc/passwd || ls /root || ls /proc/1 || ls /home",
        "exec 3<>/dev/tcp/127.0.0.1/22",
        "kill -0 $PPID && kill -9 $PPID && sleep 20",
        "mount -t tmpfs none /usr || unshare --user true && false",
        "python3 -I -c 'bytearray(3 << 30)'",
    ],
    ids=["write its file", "write", "read the host", "connect", "end its parent", "mount", "take memory"],
)
def test_sandboxed_program_can_do_nothing_else(image: Path, script: str) -> None:
    before = image.read_bytes()
    assert within(image, script).returncode != 0
    assert image.read_bytes() == before


def test_sandbox_that_cannot_start_is_said_by_name(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match="does not start in its sandbox"):
        sandbox.require(["/usr/sbin/nothing-such"], image)
    monkeypatch.setattr(sandbox, "find_program", lambda _: None)
    with pytest.raises(HostError, match="is not on this machine"):
        sandboxed(["true"], image, 1)


def test_files_are_read_whole_with_their_times_and_in_any_order(image: Path) -> None:
    with Ext4(image) as file_system:
        assert "extent" in file_system.features()
        found = names(file_system)
        assert found.keys() == {b"a", b"b", b"lost+found"}
        for name in (b"b", b"a", b"b"):
            content = b"".join(file_system.content(found[name]))
            assert len(content) == found[name].size
        assert file_system.changed(found[b"b"]) == 5_000_000_000


def test_folder_that_was_fuller_is_whole(image: Path) -> None:
    image.chmod(0o644)
    for number in range(40):
        hostile_home.write(image, f"mkdir /{number:0>200}")
    for number in range(0, 40, 3):
        hostile_home.write(image, f"rmdir /{number:0>200}")
    with Ext4(image) as file_system:
        found = file_system.folder(ROOT)
        assert not found.damaged
        kept = {f"{number:0>200}".encode() for number in range(40) if number % 3}
        assert {entry.name for entry in found.entries} == {b"a", b"b", b"lost+found", *kept}
        (lost,) = [entry for entry in found.entries if entry.name == b"lost+found"]
        assert file_system.folder(lost.inode).entries == []
        assert not file_system.folder(lost.inode).damaged


def test_reading_that_is_given_up_midway_spoils_no_later_answer(image: Path) -> None:
    with Ext4(image) as file_system:
        found = names(file_system)
        begun = file_system.content(found[b"a"])
        assert next(begun).startswith(b"first")
        begun.close()
        assert b"".join(file_system.content(found[b"b"])) == b"second"


def test_file_of_another_length_than_it_says_is_no_file(image: Path) -> None:
    with Ext4(image) as file_system:
        entry = names(file_system)[b"b"]
        for size in (entry.size - 1, entry.size + 1):
            lies = Entry(entry.name, entry.inode, entry.mode, 0, 0, size)
            with pytest.raises(DamagedError):
                list(file_system.content(lies))
        assert b"".join(file_system.content(entry)) == b"second"
        with pytest.raises(DamagedError):
            list(file_system.content(Entry(b"x", 4_000_000, 0o100644, 0, 0, 6)))
        assert file_system.folder(4_000_000).damaged


def test_what_is_no_file_system_has_no_features(tmp_path: Path) -> None:
    path = tmp_path / "blank"
    for content in (b"", bytes(1 << 20), os.urandom(1 << 20)):
        path.write_bytes(content)
        with Ext4(path) as file_system:
            assert file_system.features() == set()
            assert file_system.folder(ROOT) == file_system.folder(ROOT)
            assert file_system.folder(ROOT).damaged


def test_program_that_reads_it_ends_with_its_block(image: Path) -> None:
    with Ext4(image) as file_system:
        file_system.features()
        process = file_system._process
        assert process is not None and process.poll() is None
    assert process.poll() is not None
