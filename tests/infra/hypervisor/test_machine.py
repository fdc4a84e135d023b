"""What both kinds of hypervisor have in common."""

from typing import Any

import pytest


def test_no_pages_of_guests_are_merged(host: Any) -> None:
    assert host.check_output("cat /sys/kernel/mm/ksm/run || echo 0") in ("0", "2")
    assert "/sys/kernel/mm/ksm/run - - - - 2" in host.check_output("systemd-tmpfiles --cat-config")
    for unit in ("ksm", "ksmtuned"):
        assert host.check_output(f"systemctl show -p LoadState --value {unit}.service") == "masked"


@pytest.mark.parametrize("module", ["kvm_intel", "kvm_amd"])
def test_guests_run_no_guests_of_their_own(host: Any, module: str, defaults: dict[str, Any]) -> None:
    loaded = host.check_output("cat /etc/modprobe.d/*.conf").splitlines()
    options = [line for line in loaded if line.startswith(f"options {module} ")]
    assert options == [f"options {module} nested={int(defaults['hypervisor_nested'])}"]


def test_kernel_swaps_only_what_it_must(host: Any, defaults: dict[str, Any]) -> None:
    settings = host.check_output("systemd-analyze cat-config sysctl.d")
    found = [line for line in settings.splitlines() if line.startswith("vm.swappiness")]
    assert found[-1] == f"vm.swappiness = {defaults['hypervisor_swappiness']}"


def test_time_is_kept(host: Any) -> None:
    assert host.service("chrony.service").is_enabled


def test_no_change_waits_for_its_confirmation(host: Any) -> None:
    assert host.check_output("ls /var/lib/deskyard/guard 2>/dev/null | grep -v lock || true") == ""
    assert host.check_output("systemctl list-timers --all --no-legend 'deskyard-guard-*'") == ""


def test_unconfirmed_change_is_taken_back_by_a_boot(host: Any, kind: str) -> None:
    name = {"libvirt": "host", "proxmox": "cluster"}[kind]
    assert host.service(f"deskyard-guard@{name}-firewall.service").is_enabled
