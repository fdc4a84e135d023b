"""A libvirt host keeps its rules whatever stops, dies or loads others, and takes back what cuts its people off."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deskyard.lab.hosts import HYPERVISOR_ADDRESS, plan
from tests.molecule.conftest import Eventually, Machine

RULES = "/etc/deskyard/host-firewall.nft"
LIST = "nft -s list table inet deskyard_host && nft -s list table arp deskyard_host"
MANAGEMENT, UPLINK = f"{HYPERVISOR_ADDRESS}:22", f"{plan('open', (), 1).uplink.host_address}:22"
PLAYBOOK = Path(__file__).resolve().parents[3] / "ansible/molecule/hypervisor/converge.yml"
# Long enough for a new connection on a busy machine.
PATIENCE = 15


@contextmanager
def without_rules(host: Any) -> Iterator[None]:
    """As before the first run of the role; all is put back at the end."""
    host.run_test(f"cp {RULES} /root/rules && rm {RULES}")
    host.run_test("nft delete table inet deskyard_host && nft delete table arp deskyard_host")
    try:
        yield
    finally:
        host.run_test(f"cp /root/rules {RULES} && nft -f {RULES}")


def configure(folder: Path, machine: Machine, address: str) -> subprocess.CompletedProcess[str]:
    """Run the role's firewall over the network, from the machine that plays everybody else."""
    where = folder / "over-network"
    proxy = f"ip netns exec {machine.namespace} socat - TCP:{address},connect-timeout=5"
    persist = f"-o ControlMaster=auto -o ControlPersist=60s -o ControlPath={folder}/net-%n"
    known = f"-o UserKnownHostsFile={folder}/known_hosts -o IdentityFile={folder}/key -o ConnectTimeout=5"
    options = {"ansible_user": "root", "ansible_connection": "ssh", "ansible_python_interpreter": "/usr/bin/python3"}
    options["ansible_ssh_common_args"] = f"{persist} {known} -o 'ProxyCommand={proxy}'"
    inventory = where.with_suffix(".json")
    inventory.write_text(json.dumps({"all": {"hosts": {"hypervisor": options}}}))
    argv = ["ansible-playbook", "-i", str(inventory), str(PLAYBOOK), "--tags", "hypervisor_firewall"]
    argv += ["-e", f"hypervisor_confirm_seconds={PATIENCE}"]
    # Not Molecule's configuration, which leads around the network.
    environment = {name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"}
    environment |= {"ANSIBLE_ROLES_PATH": str(PLAYBOOK.parents[2] / "roles"), "ANSIBLE_TIMEOUT": "10"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)


def in_force(host: Any) -> str:
    return str(host.run(LIST).stdout)


def test_uplink_reaches_no_service_of_the_host_and_management_does(host: Any, machine: Machine) -> None:
    assert machine.connects(MANAGEMENT, UPLINK) == {MANAGEMENT: True, UPLINK: False}
    with without_rules(host):
        assert machine.connects(MANAGEMENT, UPLINK) == {MANAGEMENT: True, UPLINK: True}
    assert machine.connects(UPLINK) == {UPLINK: False}


def test_change_that_cuts_off_its_own_connection_is_taken_back(
    host: Any, folder: Path, machine: Machine, eventually: Eventually
) -> None:
    with without_rules(host):
        done = configure(folder, machine, UPLINK)
        assert done.returncode != 0
        assert "unreachable=1" in done.stdout, done.stdout
        assert "Load the rules" in done.stdout, done.stdout
        eventually(lambda: in_force(host) == "", "the rules of before: none")
        eventually(lambda: not host.file("/var/lib/deskyard/guard/host-firewall").exists, "the end of the guard")
        assert not host.file(RULES).exists
        assert machine.connects(UPLINK) == {UPLINK: True}
    assert machine.connects(UPLINK) == {UPLINK: False}


def test_change_that_is_confirmed_stays(host: Any, folder: Path, machine: Machine) -> None:
    rules = in_force(host)
    with without_rules(host):
        done = configure(folder, machine, MANAGEMENT)
        assert done.returncode == 0, done.stdout
        assert in_force(host) == rules
        assert host.check_output("systemctl list-timers --all --no-legend 'deskyard-guard-*'") == ""
        assert not host.file("/var/lib/deskyard/guard/host-firewall").exists


def test_confirmation_that_comes_too_late_is_refused(host: Any) -> None:
    arm = f"deskyard-guard arm host-firewall 3600 {RULES} true"
    host.run_test(f"{arm} && deskyard-guard restore host-firewall")
    late = host.run("deskyard-guard confirm host-firewall")
    assert late.rc == 1
    assert "too late" in late.stderr
    host.run_test("systemctl stop deskyard-guard-host-firewall.timer")


def test_change_that_nobody_confirmed_before_a_reboot_is_taken_back(host: Any, reboot: Callable[[], None]) -> None:
    rules, text = in_force(host), host.file(RULES).content_string
    host.run_test(f"deskyard-guard arm host-firewall 3600 {RULES} 'nft -f {RULES}'")
    host.run_test(f"echo 'table inet deskyard_host {{ }}' >{RULES}")
    reboot()
    assert host.file(RULES).content_string == text
    assert in_force(host) == rules


@pytest.mark.parametrize(
    "command",
    [
        "systemctl stop deskyard-host-firewall.service",
        "systemctl kill --signal=KILL libvirtd.service",
        "systemctl restart libvirtd.service",
        "systemctl start nftables.service",
        "systemctl reload nftables.service",
        "systemctl stop nftables.service",
    ],
)
def test_rules_stay_when_services_stop_die_or_load_others(host: Any, command: str) -> None:
    before = in_force(host)
    assert before
    # As an administrator has them: the first line throws away every table.
    host.run_test("printf '#!/usr/sbin/nft -f\\nflush ruleset\\ntable inet theirs { }\\n' >/etc/nftables.conf")
    try:
        if "reload" in command or "stop nftables" in command:
            host.run_test("systemctl start nftables.service")
        host.run(command)
        assert in_force(host) == before
    finally:
        host.run("systemctl stop nftables; systemctl start deskyard-host-firewall libvirtd.socket libvirtd.service")


def test_rules_survive_a_reboot_and_came_before_the_network_and_libvirt(host: Any, reboot: Callable[[], None]) -> None:
    before = in_force(host)
    reboot()
    assert in_force(host) == before

    def began(unit: str, what: str) -> int:
        return int(host.check_output(f"systemctl show -p {what} --value {unit}.service"))

    loaded = began("deskyard-host-firewall", "ExecMainExitTimestampMonotonic")
    host.run_test("virsh --connect qemu:///system list")
    for unit in ("systemd-networkd", "libvirtd"):
        assert 0 < loaded <= began(unit, "ExecMainStartTimestampMonotonic")


def test_without_rules_libvirt_does_not_start(host: Any, reboot: Callable[[], None]) -> None:
    host.run_test(f"cp -p {RULES} {RULES}.good && echo 'no rules at all' >{RULES}")
    try:
        reboot()
        assert host.run("virsh --connect qemu:///system list").rc != 0
        assert not host.service("libvirtd").is_running
    finally:
        host.run_test(f"mv {RULES}.good {RULES}")
    reboot()
    host.run_test("virsh --connect qemu:///system list")
