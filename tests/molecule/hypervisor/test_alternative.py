"""A Proxmox VE node as far as Debian has it: what is refused, and who is shut out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.molecule.conftest import Eventually

PLAYBOOK = Path(__file__).resolve().parents[3] / "ansible/molecule/hypervisor/converge.yml"
STRANGER, ADMINISTRATOR = "198.51.100.99", "192.0.2.77"
FAILED = "authentication failure; rhost=::ffff:{} user=root@pam msg=Authentication failure"
FILTER = "/etc/fail2ban/filter.d/deskyard-proxmox.conf"


def configure(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(folder / "inventory"), str(PLAYBOOK)]
    # What failed is said on the one or the other, as the environment has it.
    out, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.run([*argv, *options], stdout=out, stderr=both, text=True, timeout=300, check=False)


def test_key_that_is_not_the_pinned_one_is_refused(host: Any, folder: Path) -> None:
    before = host.file("/etc/apt/keyrings/deskyard-proxmox.gpg").content
    done = configure(folder, "--tags", "hypervisor_install", "-e", f"hypervisor_proxmox_key_sha256={'0' * 64}")
    assert done.returncode != 0
    assert "checksum" in done.stdout
    assert host.file("/etc/apt/keyrings/deskyard-proxmox.gpg").content == before


@pytest.mark.parametrize(
    ("change", "remedy"),
    [("/^source/d", "add the line"), ("s/vmbr0/vmbr7/", "add the bridge"), ("/bridge-ports/d", "give it bridge-ports")],
    ids=["source", "bridge", "ports"],
)
def test_interfaces_that_lack_something_are_named_and_left_alone(
    host: Any, folder: Path, change: str, remedy: str
) -> None:
    host.run_test(f"cp -p /etc/network/interfaces /root/interfaces && sed -i '{change}' /etc/network/interfaces")
    try:
        before = host.file("/etc/network/interfaces").content
        done = configure(folder, "--tags", "hypervisor_configure")
        assert done.returncode != 0
        assert remedy in done.stdout
        assert host.file("/etc/network/interfaces").content == before
    finally:
        host.run_test("mv /root/interfaces /etc/network/interfaces")


def test_without_anybody_who_may_manage_it_nothing_is_touched(folder: Path) -> None:
    done = configure(folder, "-e", '{"hypervisor_management_networks": []}')
    assert done.returncode != 0
    assert "would lock everybody out" in done.stdout
    assert "changed=0" in done.stdout


def test_who_fails_to_log_in_too_often_is_shut_out_and_nobody_else(host: Any, eventually: Eventually) -> None:
    for address, times in ((STRANGER, 3), (ADMINISTRATOR, 2)):
        line = FAILED.format(address)
        loop = f'for n in {" ".join(map(str, range(times)))}; do echo "{line}"; done; sleep 1'
        host.run_test(f"systemd-run --quiet --wait --unit=pvedaemon -p SyslogIdentifier=pvedaemon sh -c '{loop}'")

    def banned() -> str:
        return str(host.check_output("fail2ban-client get deskyard-proxmox banned"))

    eventually(lambda: STRANGER in banned(), "the ban")
    assert ADMINISTRATOR not in banned()
    assert STRANGER in host.check_output("nft list ruleset")


def test_successful_login_is_no_failure(host: Any) -> None:
    good = "node pvedaemon[1234]: <root@pam> successful auth for user root@pam"
    assert "0 matched" in host.run(f"fail2ban-regex '{good}' {FILTER}").stdout
    bad = f"node pvedaemon[1234]: {FAILED.format(STRANGER)}"
    assert "1 matched" in host.run(f"fail2ban-regex '{bad}' {FILTER}").stdout
