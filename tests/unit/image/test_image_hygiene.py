"""A disk is clean when nothing of a machine is in it; each thing that could be is found and named."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deskyard.errors import BuildError
from deskyard.host.places import tree
from deskyard.host.progress import Timings
from deskyard.image.check import suites
from deskyard.image.check.hygiene import ABSENT, LOOKED_INTO, Check, examine, require_clean
from deskyard.plan.image.image import read_image
from tests.unit.image.disks import raw_disk

Disk = Callable[[dict[str, str]], Path]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """Make a raw disk from a clean tree and what is put into it; a value of nothing takes the file away."""

    def make(changes: dict[str, str]) -> Path:
        content = {
            "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
            "etc/shadow": "root:*:19000::::::\nagent:!:19000::::::\n",
            "etc/machine-id": "\n",
            "etc/ssh/sshd_config": "PermitRootLogin no\n",
            "home/agent/.profile": "umask 027\n",
            "var/lib/apt/lists/lock": "-",
            **changes,
        }
        tree, raw = tmp_path / "tree", tmp_path / "disk.raw"
        shutil.rmtree(tree, ignore_errors=True)
        for name, text in content.items():
            if text:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text(text)
        return raw_disk(tree, raw)

    return make


def dirty(checks: tuple[Check, ...]) -> dict[str, tuple[str, ...]]:
    return {check.what: check.found for check in checks if check.found}


def test_clean_disk_is_clean_and_the_report_says_what_was_looked_for(disk: Disk) -> None:
    checks = examine(disk({}))
    assert dirty(checks) == {}
    assert {check.what for check in checks} == {*ABSENT, *LOOKED_INTO}
    assert all(check.places for check in checks)
    require_clean(checks)


@pytest.mark.parametrize(
    ("what", "path", "text"),
    [
        ("SSH host keys", "etc/ssh/ssh_host_ed25519_key", "key"),
        ("cloud-init instance", "var/lib/cloud/instances/one/x", "x"),
        ("cloud-init instance", "etc/systemd/network/10-cloud-init-eth0.network", "x"),
        ("keys of the build", "root/.ssh/authorized_keys", "key"),
        ("keys of the build", "home/agent/.ssh/authorized_keys", "key"),
        ("CA certificates of the build", "usr/local/share/ca-certificates/company.crt", "certificate"),
        ("random seed", "var/lib/systemd/random-seed", "seed"),
        ("package caches", "var/cache/apt/archives/sudo_1.deb", "deb"),
        ("package lists", "var/lib/apt/lists/deb.debian.org_Packages", "list"),
        ("logs", "var/log/journal/0123/system.journal", "log"),
        ("logs", "var/log/dpkg.log", "log"),
        ("histories", "home/agent/.bash_history", "secret"),
        ("machine-id", "etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("machine-id", "etc/machine-id", ""),
        ("machine-id", "var/lib/dbus/machine-id", "0123"),
        ("passwords", "etc/shadow", "root:*:1::::::\nagent:$6$salt$hash:1::::::\n"),
        ("passwords", "etc/shadow", ""),
    ],
)
def test_what_no_two_machines_may_share_is_found(disk: Disk, what: str, path: str, text: str) -> None:
    checks = examine(disk({path: text}))
    assert dirty(checks).keys() == {what}
    with pytest.raises(BuildError, match=what):
        require_clean(checks)


def test_password_itself_is_not_told(disk: Disk) -> None:
    found = dirty(examine(disk({"etc/shadow": "agent:$6$salt$hash:1::::::\n"})))
    assert found == {"passwords": ("account agent",)}


def test_what_cloud_init_is_to_write_later_is_no_finding(disk: Disk) -> None:
    assert dirty(examine(disk({"etc/systemd/network/10-cloud-init-eth0.network.d/x.conf": "x"}))) == {}


def test_disk_that_cannot_be_read_is_not_taken_for_clean(disk: Disk, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no root file system"):
        examine(disk({"etc/passwd": ""}))
    (tmp_path / "noise.raw").write_bytes(b"\0" * (1 << 20))
    with pytest.raises(BuildError, match="no root file system"):
        examine(tmp_path / "noise.raw")


def test_finding_fails_the_build_before_the_disk_is_booted(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boot(*_arguments: object, **_options: object) -> None:
        raise AssertionError("it was booted")

    monkeypatch.setattr(suites, "boot_guest", boot)

    def check(raw: Path) -> None:
        image = tmp_path / "disk.qcow2"
        subprocess.run(["qemu-img", "convert", "-q", "-O", "qcow2", str(raw), str(image)], check=True)
        suites.check_image(read_image(tree(), "desktop"), image, "tcg", tmp_path, Timings())

    with pytest.raises(BuildError, match="SSH host keys: /etc/ssh/ssh_host_rsa_key"):
        check(disk({"etc/ssh/ssh_host_rsa_key": "key"}))
    with pytest.raises(AssertionError, match="it was booted"):
        check(disk({}))
