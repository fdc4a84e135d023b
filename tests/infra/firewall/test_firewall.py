"""The rules of a gateway are in force, whole, whether it has settings or not."""

from typing import Any

import pytest

APPLIED = "/etc/deskyard/firewall.nft"
BASE = "/etc/deskyard/firewall-base.nft"
# Sets that the kernel fills as it sees addresses.
SEEN_SETS = ("https_sources", "new_connections", "open_flows", "open_name_lines", "questions", "refusals")
SEEN = {f"set {name} {{" for name in SEEN_SETS}


def comparable(listing: str) -> list[str]:
    """A ruleset without the addresses that were seen, which come and go."""
    kept, inside = [], False
    for line in listing.splitlines():
        inside = line.strip() in SEEN or (inside and line.strip() != "}")
        if not inside:
            kept.append(line.rstrip())
    return kept


@pytest.mark.parametrize("chain", ["input", "forward", "output"])
def test_chain_drops_what_no_rule_allows(host: Any, chain: str) -> None:
    listing = host.check_output(f"nft list chain inet deskyard {chain}")
    assert "policy drop;" in listing


def test_rules_in_force_are_the_configured_ones_and_nothing_else(host: Any) -> None:
    path = APPLIED if host.file(APPLIED).exists else BASE
    fresh = host.check_output(f"unshare -n sh -c 'nft -f {path} && nft -s list ruleset'")
    assert comparable(host.check_output("nft -s list ruleset")) == comparable(fresh)


def test_rules_are_loaded_before_any_interface_is_up(host: Any) -> None:
    before = host.check_output("systemctl show -p Before --value deskyard-firewall.service").split()
    assert "network-pre.target" in before
    requires = host.check_output("systemctl show -p Requires --value systemd-networkd.service").split()
    assert "deskyard-firewall.service" in requires


def test_rules_stay_when_their_unit_stops(host: Any) -> None:
    assert host.check_output("systemctl show -p ExecStop --value deskyard-firewall.service") == ""
    assert host.check_output("systemctl show -p UnitFileState --value nftables.service") == "masked"


def test_firewall_is_enabled_and_loaded(host: Any) -> None:
    service = host.service("deskyard-firewall.service")
    assert service.is_enabled
    assert service.is_running


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("net.ipv4.conf.all.rp_filter", 1),
        ("net.ipv4.conf.all.accept_redirects", 0),
        ("net.ipv4.conf.all.send_redirects", 0),
        ("net.ipv4.conf.all.accept_source_route", 0),
        ("net.ipv6.conf.all.disable_ipv6", 1),
        ("net.ipv6.conf.default.disable_ipv6", 1),
        ("net.ipv6.conf.all.forwarding", 0),
    ],
)
def test_kernel_is_set_as_a_gateway_needs_it(host: Any, name: str, value: int) -> None:
    assert host.sysctl(name) == value


def test_kernel_learns_no_vlan_tags(host: Any) -> None:
    """With the module a virtual card lets frames with a priority tag in, which filters below do not look into."""
    # Behind the modules that it would need.
    assert host.check_output("modprobe --show-depends 8021q").split()[-2:] == ["install", "/bin/false"]
    assert host.run("modprobe 8021q").failed
    assert not host.file("/proc/net/vlan").exists


def test_kernel_forwards_only_if_the_settings_say_so(host: Any) -> None:
    path = "/etc/sysctl.d/70-deskyard-forward.conf"
    wanted = host.file(path).exists and "ip_forward = 1" in host.file(path).content_string
    assert host.sysctl("net.ipv4.ip_forward") == int(wanted)


def test_table_of_connections_is_there_when_its_length_is_set(host: Any) -> None:
    assert "nf_conntrack" in host.file("/etc/modules-load.d/deskyard-gateway.conf").content_string.splitlines()


def test_there_is_no_ipv6_address(host: Any) -> None:
    assert host.check_output("ip -6 -o address show") == ""
