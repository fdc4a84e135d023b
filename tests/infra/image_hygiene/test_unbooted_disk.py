"""What must not be in an image: read from the file system of the disk before it ever booted."""

import json
import subprocess
from pathlib import Path

import pytest

SECTOR = 512
LINUX_ROOT_TYPES = {"0FC63DAF-8483-4772-8E79-3D69D8477DE4", "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"}


class RootFileSystem:
    """The root file system of a raw disk, read with debugfs, which mounts nothing."""

    def __init__(self, disk: Path) -> None:
        table = json.loads(subprocess.check_output(["sfdisk", "--json", str(disk)], text=True))
        partitions = table["partitiontable"]["partitions"]
        root = next(p for p in partitions if p["type"].upper() in LINUX_ROOT_TYPES)
        self._device = f"{disk}?offset={root['start'] * SECTOR}"

    def _debugfs(self, request: str) -> str:
        argv = ["debugfs", "-R", request, self._device]
        return subprocess.run(argv, check=True, capture_output=True, text=True, errors="replace").stdout

    def names(self, folder: str) -> set[str]:
        """The names in a folder; empty if there is no such folder."""
        entries = [line.split("/") for line in self._debugfs(f"ls -p {folder}").splitlines() if line.startswith("/")]
        return {entry[5] for entry in entries} - {".", "..", "lost+found"}

    def text(self, path: str) -> str:
        """The text of a file; empty if there is none."""
        return self._debugfs(f"cat {path}")


@pytest.fixture(scope="module")
def root(request: pytest.FixtureRequest) -> RootFileSystem:
    disk = request.config.getoption("--infra-disk", default=None)
    if disk is None:
        pytest.skip("no --infra-disk: a machine that runs has an identity of its own")
    return RootFileSystem(Path(disk))


def test_reader_sees_the_file_system(root: RootFileSystem) -> None:
    """Without this, every check below would pass on a disk that cannot be read."""
    assert "ssh" in root.names("/etc")
    assert "sshd_config" in root.names("/etc/ssh")
    assert root.text("/etc/passwd").startswith("root:")


def test_there_are_no_host_keys(root: RootFileSystem) -> None:
    assert not {name for name in root.names("/etc/ssh") if name.startswith("ssh_host_")}


def test_machine_id_is_empty(root: RootFileSystem) -> None:
    assert "machine-id" in root.names("/etc")
    assert root.text("/etc/machine-id").strip() == ""
    assert "machine-id" not in root.names("/var/lib/dbus")


def test_there_is_no_cloud_init_instance(root: RootFileSystem) -> None:
    assert not root.names("/var/lib/cloud") & {"instance", "instances", "data", "seed"}
    written = {name for name in root.names("/etc/systemd/network") if name.startswith("10-cloud-init-")}
    assert not {name for name in written if name.endswith((".network", ".link"))}


def test_the_key_of_the_build_is_gone(root: RootFileSystem) -> None:
    assert ".ssh" not in root.names("/root")


def test_there_is_no_random_seed(root: RootFileSystem) -> None:
    assert "random-seed" not in root.names("/var/lib/systemd")


def test_package_caches_are_empty(root: RootFileSystem) -> None:
    assert not {name for name in root.names("/var/cache/apt/archives") if name.endswith(".deb")}
    assert root.names("/var/lib/apt/lists") <= {"partial", "lock", "auxfiles"}


def test_there_are_no_logs(root: RootFileSystem) -> None:
    files = root.names("/var/log")
    assert not files & {"cloud-init.log", "cloud-init-output.log", "auth.log", "syslog", "dpkg.log", "apt.log"}
    assert not root.names("/var/log/journal")


def test_there_is_no_shell_history(root: RootFileSystem) -> None:
    homes = ["/root", *(f"/home/{name}" for name in root.names("/home"))]
    assert not [home for home in homes if root.names(home) & {".bash_history", ".python_history", ".ansible"}]


def test_no_account_has_a_password(root: RootFileSystem) -> None:
    hashes = [line.split(":")[1] for line in root.text("/etc/shadow").splitlines()]
    assert hashes
    assert all(value.startswith(("*", "!")) for value in hashes)
