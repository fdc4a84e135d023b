"""The program that notes changed files of a system and brings them again, as it is sent, with an /etc of its own."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from deskyard.guest import system
from deskyard.site.guest_program import sent
from tests.support.requirements import need_programs, need_root

SECONDS = 60
# What the image had, as old as its build.
OF_THE_IMAGE = {"issue": "Debian", "app/main.conf": "a=1", "app/other.conf": "b=1", "ssh/ssh_host_key": "key"}


class Desktop:
    """Folders that stand for /etc and /home of a desktop, in a sandbox of bubblewrap."""

    def __init__(self, root: Path) -> None:
        self.root, self.etc, self.home = root, root / "etc", root / "home"
        for folder in (self.home / ".deskyard", root / "once", root / "bin"):
            folder.mkdir(parents=True)
        for name in ("apt-mark", "systemctl"):
            program = root / "bin" / name
            program.write_text(f'#!/bin/sh\necho {name} "$@" >> /home/ran\n')
            program.chmod(0o755)
        self.install()

    def install(self) -> None:
        """A system as its image has it, whose first boot has ended."""
        subprocess.run(["rm", "-rf", str(self.etc)], check=True, timeout=SECONDS)
        for name, text in {**OF_THE_IMAGE, "machine-id": "1"}.items():
            self.put(name, text)
        mark = self.root / "once/final"
        mark.write_text("")
        # The kernel keeps times of changes by its ticks.
        later = max(path.lstat().st_ctime for path in self.etc.rglob("*"))
        os.utime(mark, (later, later))
        while time.time() <= later + 0.02:
            (self.root / "tick").write_text("")

    def put(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def ask(self, **request: Any) -> dict[str, Any]:
        remote, stdin = sent(system, request)
        sandbox = [
            "bwrap",
            "--ro-bind",
            "/usr",
            "/usr",
            "--symlink",
            "usr/lib",
            "/lib",
            "--symlink",
            "usr/lib64",
            "/lib64",
        ]
        sandbox += [
            "--symlink",
            "usr/bin",
            "/bin",
            "--symlink",
            "usr/sbin",
            "/sbin",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]
        sandbox += ["--bind", str(self.etc), "/etc", "--bind", str(self.home), "/home", "--unshare-net"]
        sandbox += ["--bind", str(self.root / "once"), str(system.ONCE), "--ro-bind", str(self.root / "bin"), "/stub"]
        sandbox += ["--setenv", "PATH", "/stub:/usr/bin:/bin"]
        argv = list(remote[remote.index("python3") :])
        done = subprocess.run(
            [*sandbox, *argv], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.stdout, done.stderr
        return dict(json.loads(done.stdout))

    def note(self, *keep: str) -> dict[str, Any]:
        return self.ask(do="note", packages=[], keep=keep)


@pytest.fixture(autouse=True, scope="module")
def able() -> None:
    """Only root can start the sandbox with folders of its own."""
    need_root("the sandbox stands for a desktop")
    need_programs("bwrap")


@pytest.fixture
def desktop(tmp_path: Path) -> Desktop:
    return Desktop(tmp_path)


def test_what_somebody_changed_is_noted_and_brought_to_another_system_with_its_mode(desktop: Desktop) -> None:
    desktop.put("app/main.conf", "a=2", 0o640)
    desktop.put("app/new/deep.conf", "c=1")
    desktop.put("issue", "mine")
    noted = desktop.note("/etc/app")
    assert set(noted["files"]) == {"/etc/app/main.conf", "/etc/app/new/deep.conf", "/etc/issue"}
    assert (noted["kept"], noted["too_large"]) == (["/etc/app/main.conf", "/etc/app/new/deep.conf"], [])
    desktop.install()
    desktop.put("app/other.conf", "b=2 of the newer image")
    assert desktop.ask(do="bring", keep=noted["kept"])["files"] == noted["kept"]
    assert (desktop.etc / "app/main.conf").read_text() == "a=2"
    assert (desktop.etc / "app/main.conf").stat().st_mode & 0o7777 == 0o640
    assert (desktop.etc / "app/new/deep.conf").read_text() == "c=1"
    # What nobody changed is the newer image's, and what is not kept, too.
    assert (desktop.etc / "app/other.conf").read_text() == "b=2 of the newer image"
    assert (desktop.etc / "issue").read_text() == "Debian"


def test_what_was_brought_is_kept_at_the_next_exchange_too_though_nobody_changed_it_since(desktop: Desktop) -> None:
    desktop.put("app/main.conf", "a=2")
    desktop.ask(do="bring", keep=desktop.note("/etc/app")["kept"])
    desktop.install()
    desktop.ask(do="bring", keep=["/etc/app"])
    # As if its first boot had ended only then.
    os.utime(desktop.root / "once/final", (time.time() + 60,) * 2)
    assert desktop.note("/etc/app")["kept"] == ["/etc/app/main.conf"]
    (desktop.etc / "app/main.conf").unlink()
    assert desktop.note("/etc/app")["kept"] == []


def test_what_is_kept_comes_first_where_not_all_fits_and_what_does_not_is_named(desktop: Desktop) -> None:
    desktop.put("a-large", "x" * (system.MOST_BYTES - 10))
    desktop.put("zz-kept", "y" * 20)
    noted = desktop.note("/etc/zz-kept")
    assert (noted["files"], noted["kept"], noted["too_large"]) == (["/etc/zz-kept"], ["/etc/zz-kept"], [])
    desktop.put("zz-kept", "y" * (system.MOST_BYTES + 1))
    noted = desktop.note("/etc/zz-kept")
    assert (noted["kept"], noted["too_large"]) == ([], ["/etc/zz-kept"])


def test_identity_is_never_brought_whatever_the_list_of_before_says(desktop: Desktop) -> None:
    desktop.put("app/main.conf", "a=2")
    desktop.put("machine-id", "another")
    desktop.put("ssh/ssh_host_key", "another")
    notes = desktop.home / ".deskyard/before"
    notes.mkdir()
    (notes / system.BROUGHT).write_text("/etc/machine-id\n/etc/ssh/ssh_host_key\n/home/x\n/etc/app/main.conf\n")
    assert desktop.note("/etc/machine-id", "/etc/ssh", "/etc/app")["files"] == ["/etc/app/main.conf"]


def test_units_that_come_again_are_known_to_systemd(desktop: Desktop) -> None:
    desktop.put("systemd/system/mine.service", "[Service]\n")
    desktop.ask(do="bring", keep=desktop.note("/etc/systemd")["kept"])
    assert "systemctl daemon-reload\n" in (desktop.home / "ran").read_text()


def test_home_is_measured_by_what_it_takes_and_without_what_is_mounted_in_it(desktop: Desktop) -> None:
    empty = desktop.ask(do="measure_home")
    (desktop.home / "deep").mkdir()
    (desktop.home / "deep/full").write_bytes(b"x" * (1 << 20))
    os.link(desktop.home / "deep/full", desktop.home / "again")
    (desktop.home / "far").symlink_to("/usr")
    with (desktop.home / "sparse").open("wb") as stream:
        stream.truncate(1 << 30)
    mounted = desktop.home / "mounted"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(mounted)], check=True, timeout=SECONDS)
    try:
        (mounted / "elsewhere").write_bytes(b"x" * (8 << 20))
        found = desktop.ask(do="measure_home")
    finally:
        subprocess.run(["umount", str(mounted)], check=True, timeout=SECONDS)
    # A folder, a file by two names, a link and a sparse file.
    assert found["files"] - empty["files"] == 4
    assert 1 << 20 <= found["bytes"] - empty["bytes"] < 2 << 20
