"""A node of Proxmox VE: one repository with a pinned key, no DHCP of its own, bounded logins."""

import re
from typing import Any

import pytest

KEY = "/etc/apt/keyrings/deskyard-proxmox.gpg"


@pytest.fixture(autouse=True)
def _only_proxmox(kind: str) -> None:
    if kind != "proxmox":
        pytest.skip("this is no node of Proxmox VE")


def test_packages_come_from_the_one_repository_that_was_chosen(host: Any) -> None:
    asked = re.findall(r"'(\S*proxmox\.com\S*/InRelease)'", host.check_output("apt-get update --print-uris"))
    assert asked == [f"http://download.proxmox.com/debian/pve/dists/{host.system_info.codename}/InRelease"]
    chosen = host.file("/etc/apt/sources.list.d/proxmox.sources").content_string.splitlines()
    assert {"Components: pve-no-subscription", f"Signed-By: {KEY}"} <= set(chosen)


def test_node_answers_no_dhcp_of_its_own(host: Any) -> None:
    assert host.check_output("systemctl show -p LoadState --value dnsmasq.service") == "masked"


@pytest.mark.parametrize("jail", ["sshd", "deskyard-proxmox"])
def test_logins_are_bounded(host: Any, jail: str, defaults: dict[str, Any]) -> None:
    assert host.service("fail2ban").is_enabled
    ban = host.check_output(f"fail2ban-client get {jail} bantime")
    assert int(ban) == defaults["hypervisor_login_ban_seconds"]


def test_network_is_what_the_administrator_wrote(host: Any) -> None:
    assert "Ansible" not in host.file("/etc/network/interfaces").content_string
    assert host.package("ifupdown2").is_installed
