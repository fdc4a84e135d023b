"""A libvirt host: its own rules are in force before anything else is up, and libvirt answers with its filters."""

from typing import Any

import pytest

RULES = "/etc/deskyard/host-firewall.nft"
LIST = "nft -s list table inet deskyard_host && nft -s list table arp deskyard_host"
VIRSH = "virsh --connect qemu:///system"


@pytest.fixture(autouse=True)
def _only_libvirt(kind: str) -> None:
    if kind != "libvirt":
        pytest.skip("this is no libvirt host")


def test_rules_in_force_are_the_configured_ones(host: Any) -> None:
    fresh = host.check_output(f"unshare -n sh -c 'nft -f {RULES} && {LIST}'")
    assert host.check_output(LIST) == fresh


def test_rules_are_loaded_before_any_interface_is_up_and_libvirt_needs_them(host: Any) -> None:
    unit = "deskyard-host-firewall.service"
    assert "network-pre.target" in host.check_output(f"systemctl show -p Before --value {unit}").split()
    for verb in ("Requires", "After"):
        assert unit in host.check_output(f"systemctl show -p {verb} --value libvirtd.service").split()
    assert host.service(unit).is_enabled
    assert host.service(unit).is_running


def test_rules_stay_when_their_unit_stops(host: Any) -> None:
    assert host.check_output("systemctl show -p ExecStop --value deskyard-host-firewall.service") == ""


def test_libvirt_answers_and_has_the_filters_against_forging(host: Any) -> None:
    assert host.service("libvirtd.service").is_enabled
    assert host.service("libvirtd.socket").is_running
    assert "clean-traffic" in host.check_output(f"{VIRSH} nwfilter-list")


def test_libvirts_own_network_is_off(host: Any) -> None:
    listed = host.check_output(f"{VIRSH} net-list --all --name").split()
    active = host.check_output(f"{VIRSH} net-list --name").split()
    autostarted = host.check_output(f"{VIRSH} net-list --all --autostart --name").split()
    assert "default" in listed
    assert "default" not in (*active, *autostarted)


def test_every_guest_is_confined_where_the_kernel_can(host: Any) -> None:
    if host.run("grep -q Y /sys/module/apparmor/parameters/enabled").rc != 0:
        pytest.skip("this kernel has no AppArmor")
    settings = host.file("/etc/libvirt/qemu.conf").content_string.splitlines()
    assert 'security_driver = "apparmor"' in settings
    assert "security_require_confined = 1" in settings
