"""The program that puts /home on its volume, on a loop device in a mount namespace of its own."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deskyard.plan.account import HOME_SERIAL
from tests.support.requirements import need_root

PROGRAM = Path(__file__).resolve().parents[2] / "ansible/roles/home_volume/files/home-volume.sh"
MIB = 1 << 20
# What of the machine it sees: folders of the test in place of the real ones.
FOLDERS = {"home": "/home", "run": "/run/deskyard", "state": "/var/lib/deskyard", "ssh": "/etc/ssh"}


@dataclass(frozen=True)
class System:
    """A system disk, as far as the program touches it, and the disk of /home if there is one."""

    root: Path
    device: str | None

    def start(self, *, then: str = "true") -> subprocess.CompletedProcess[str]:
        """Run the program as at a start, then a command that sees what it mounted; all mounts end with it."""
        binds = "".join(f"mkdir -p {to}; mount --bind {self.root / name} {to}\n" for name, to in FOLDERS.items())
        script = f"set -e\n{binds}{self.root}/program\n{then}"
        path = f"{self.root}/bin:{os.environ['PATH']}"
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env={"PATH": path})

    def key(self) -> str:
        """The public host key."""
        return (self.root / "ssh/ssh_host_ed25519_key.pub").read_text()


def system(root: Path, device: str | None) -> System:
    """A system whose image has a file in the home of its agent, and no keys."""
    for name in (*FOLDERS, "bin"):
        (root / name).mkdir(parents=True)
    agent = root / "home/agent"
    agent.mkdir()
    (agent / ".profile").write_text("of the image\n")
    os.chown(agent, 1000, 1000)
    # The kernel gives a loop device no serial number, and nobody may wait for the real udev.
    programs = {"lsblk": f"echo '{device} home'" if device else "echo '/dev/vda'", "udevadm": "true"}
    for name, line in programs.items():
        (root / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (root / "bin" / name).chmod(0o755)
    # These two are systemd's: it must run for them, and there is a machine's test for them.
    text = PROGRAM.read_text()
    for unit in ("systemd-fsck", "systemd-growfs"):
        text = text.replace(f"/usr/lib/systemd/{unit} ", f"{unit} ")
        (root / "bin" / unit).write_text("#!/bin/sh\nexit 0\n")
        (root / "bin" / unit).chmod(0o755)
    (root / "program").write_text(text)
    (root / "program").chmod(0o755)
    return System(root, device)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A blank disk."""
    need_root("loop devices")
    file = tmp_path / "disk"
    with file.open("wb") as blank:
        blank.truncate(64 * MIB)
    argv = ["losetup", "--find", "--show", str(file)]
    device = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], timeout=20, check=True)


def test_blank_disk_becomes_home_with_what_the_image_has_and_a_key_of_its_own(tmp_path: Path, disk: str) -> None:
    first = system(tmp_path / "first", disk)
    look = "stat -c '%U:%a %n' /home/.deskyard/identity; stat -c %u /home/agent; cat /home/agent/.profile"
    done = first.start(then=look)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == ["root:700 /home/.deskyard/identity", "1000", "of the image"]
    assert first.key().startswith("ssh-ed25519 ")


def test_home_and_key_come_along_to_another_system_disk(tmp_path: Path, disk: str) -> None:
    first = system(tmp_path / "first", disk)
    assert first.start(then="echo mine > /home/agent/made").returncode == 0
    other = system(tmp_path / "other", disk)
    (other.root / "home/agent/.profile").write_text("of the newer image\n")
    done = other.start(then="cat /home/agent/made /home/agent/.profile")
    assert done.stdout.splitlines()[-2:] == ["mine", "of the image"], done.stderr
    assert other.key() == first.key()


def test_keys_that_a_system_has_already_stay_its_keys(tmp_path: Path, disk: str) -> None:
    older = system(tmp_path / "older", disk)
    key = tmp_path / "older/ssh/ssh_host_ed25519_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], timeout=20, check=True)
    before = older.key()
    assert older.start().returncode == 0
    assert older.key() == before
    other = system(tmp_path / "other", disk)
    assert other.start().returncode == 0
    assert other.key() == before


def test_first_start_that_broke_off_is_done_again(tmp_path: Path, disk: str) -> None:
    first = system(tmp_path / "first", disk)
    (first.root / "bin/ssh-keygen").write_text("#!/bin/sh\nexit 1\n")
    (first.root / "bin/ssh-keygen").chmod(0o755)
    assert first.start().returncode != 0
    (first.root / "bin/ssh-keygen").unlink()
    done = first.start(then="cat /home/agent/.profile")
    assert done.stdout.splitlines()[-1:] == ["of the image"], done.stderr


def test_system_without_such_a_disk_stays_as_it_is(tmp_path: Path) -> None:
    need_root("mounts")
    plain = system(tmp_path / "plain", None)
    done = plain.start(then="cat /home/agent/.profile")
    assert (done.returncode, done.stdout) == (0, "of the image\n")
    assert list((plain.root / "ssh").iterdir()) == []


@pytest.mark.parametrize("left", ["no disk", "a blank disk"])
def test_system_whose_home_is_gone_does_not_start_with_another(tmp_path: Path, disk: str, left: str) -> None:
    first = system(tmp_path / "first", disk)
    assert first.start().returncode == 0
    if left == "no disk":
        (first.root / "bin/lsblk").write_text("#!/bin/sh\necho /dev/vda\n")
    else:
        subprocess.run(["wipefs", "--all", "--quiet", disk], timeout=20, check=True)
    done = first.start()
    assert done.returncode == 1
    assert "/home is not there" in done.stderr


def unsettled(where: System, times: int) -> None:
    """Let udev be too late so many times."""
    late = where.root / "bin/udevadm"
    late.write_text(f'#!/bin/sh\necho . >>{where.root}/asked\n[ "$(wc -l <{where.root}/asked)" -gt {times} ]\n')


def test_disk_that_is_there_is_home_though_other_devices_take_their_time(tmp_path: Path, disk: str) -> None:
    busy = system(tmp_path / "busy", disk)
    unsettled(busy, 100)
    done = busy.start(then="stat -c %U:%a /home/.deskyard/identity")
    assert done.stdout.splitlines()[-1:] == ["root:700"], done.stderr


def test_disk_that_comes_late_is_waited_for(tmp_path: Path, disk: str) -> None:
    busy = system(tmp_path / "busy", disk)
    unsettled(busy, 2)
    (busy.root / "bin/lsblk").write_text(f'#!/bin/sh\n[ "$(wc -l <{busy.root}/asked)" -lt 3 ] || echo {disk} home\n')
    done = busy.start(then="stat -c %U:%a /home/.deskyard/identity")
    assert done.stdout.splitlines()[-1:] == ["root:700"], done.stderr


def test_system_does_not_start_without_home_while_nobody_knows_whether_it_has_one(tmp_path: Path) -> None:
    need_root("mounts")
    busy = system(tmp_path / "busy", None)
    unsettled(busy, 100)
    done = busy.start()
    assert done.returncode == 1
    assert "/home is not there: this machine's devices are not ready" in done.stderr
    assert list((busy.root / "ssh").iterdir()) == []


def test_program_looks_for_the_disk_that_machines_are_given() -> None:
    assert f"\nserial={HOME_SERIAL}\n" in PROGRAM.read_text()
