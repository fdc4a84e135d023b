"""The watchdog in a guest: it knows each file system on a disk, and thaws again and again for a while."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from deskyard.guest import thaw


def test_file_systems_on_disks_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "proc /proc proc rw 0 0\n/dev/vda1 / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/vdc /my\\040home ext4 rw 0 0\n"
    )
    monkeypatch.setattr(thaw, "MOUNTS", mounts)
    assert thaw.mount_points() == ["/", "/my home"]


def test_one_that_is_not_frozen_keeps_no_other_from_being_thawed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ioctl(folder: int, request: int, _: int) -> int:
        asked.append((folder, request))
        if folder == 1:
            raise OSError(22, "Invalid argument")
        return 0

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert thaw.thaw([1, 2]) == 1
    assert asked == [(1, thaw.FITHAW), (2, thaw.FITHAW)]


def test_program_goes_into_the_background_and_ends_by_itself() -> None:
    source = Path(thaw.__file__).read_text()
    began = time.monotonic()
    argv = [sys.executable, "-B", "-", "0.1", "0.1"]
    done = subprocess.run(argv, input=source, capture_output=True, text=True, timeout=60, check=True)
    pid = int(done.stdout)
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < began + 60
        time.sleep(0.05)
