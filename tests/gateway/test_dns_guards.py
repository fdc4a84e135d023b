"""Each line of dnsmasq's configuration: what would be answered, leased or asked outside without it."""

import json
import socket
import sys
from pathlib import Path

import pytest

from tests.gateway.nets import Nets
from tests.gateway.test_dns import AAAA, DISCOVER, GATEWAY, PTR, answers, served
from tests.unit.gateway.support import parsed

STRANGER = "52:54:00:66:66:66"


def lease(nets: Nets, desktop: str, *arguments: str) -> str | None:
    """The address that a desktop is given."""
    given = json.loads(nets.run(desktop, sys.executable, "-c", DISCOVER, *arguments))
    return given and str(given["address"])


def test_every_desktop_gets_the_address_of_the_plan(tmp_path: Path) -> None:
    settings = parsed("open")
    with served(settings, tmp_path) as nets:
        assert {desktop.name: lease(nets, desktop.name) for desktop in settings.desktops} == {
            desktop.name: desktop.address for desktop in settings.desktops
        }


def test_desktop_goes_on_with_its_address_though_the_gateway_lost_its_leases(tmp_path: Path) -> None:
    settings = parsed("open")
    first = settings.desktops[0]
    with served(settings, tmp_path) as nets:
        assert lease(nets, first.name, first.mac, first.address) == first.address


@pytest.mark.parametrize(
    ("line", "weaker"), [("dhcp-ignore=tag:!known\n", ""), (",static,", ",10.80.1.126,")], ids=["range", "ignored"]
)
def test_either_guard_keeps_strangers_without_an_address(line: str, weaker: str, tmp_path: Path) -> None:
    with served(parsed("none"), tmp_path, lambda text: text.replace(line, weaker)) as nets:
        assert lease(nets, "d1", STRANGER) is None


def test_without_both_guards_a_stranger_gets_an_address(tmp_path: Path) -> None:
    def open_to_all(text: str) -> str:
        return text.replace("dhcp-ignore=tag:!known\n", "").replace(",static,", ",10.80.1.126,")

    with served(parsed("none"), tmp_path, open_to_all) as nets:
        assert lease(nets, "d1", STRANGER) is not None


@pytest.mark.parametrize("egress", ["open", "none"])
def test_names_are_answered_where_desktops_are_and_nowhere_else(egress: str, tmp_path: Path) -> None:
    with served(parsed(egress), tmp_path) as nets:  # type: ignore[arg-type]
        lines = nets.run("gw", "ss", "--no-header", "--numeric", "--listening", "--udp", "--tcp").splitlines()
        addresses = {line.split()[4].rpartition(":")[0] for line in lines if line.split()[4].endswith(":53")}
    assert GATEWAY in addresses
    assert not {other for other in addresses if other != GATEWAY and not other.endswith("%workspace")}, addresses


def test_what_only_this_network_could_know_is_not_asked_outside(tmp_path: Path) -> None:
    with served(parsed("open"), tmp_path) as nets:
        answers(nets, "no-such-desktop")
        answers(nets, "7.7.168.192.in-addr.arpa", kind=PTR)
        assert answers(nets, "good.test")["good.test"][0] == 0
        assert (tmp_path / "asked").read_text().splitlines() == ["ready", "good.test"]


def test_names_have_no_ipv6_address(tmp_path: Path) -> None:
    with served(parsed("open"), tmp_path) as nets:
        assert answers(nets, "good.test", kind=AAAA) == {"good.test": [0, None]}
    with served(parsed("open"), tmp_path, lambda text: text.replace("filter-AAAA\n", "")) as nets:
        assert answers(nets, "good.test", kind=AAAA)["good.test"][1] is not None


def test_names_of_the_gateways_own_machine_are_nobodys(tmp_path: Path) -> None:
    names = {socket.gethostname(), *Path("/etc/hosts").read_text().split()} - {"d1"}
    asked = sorted(name for name in names if name[0].isalpha() and len(name) < 64)
    assert asked
    with served(parsed("none"), tmp_path) as nets:
        assert {tuple(answer) for answer in answers(nets, *asked).values()} == {(3, None)}


def test_every_name_on_a_list_leads_to_the_gateway(tmp_path: Path) -> None:
    settings = parsed(
        "locked", ("first.test", "second.test", "third.test", "*.suffix.test", "git.test:22", "hub.test:22")
    )
    forwards = {forward.name: forward.address for forward in settings.egress_rules.forwards}
    assert len(forwards) == 2
    web = ("first.test", "second.test", "third.test", "a.suffix.test", "b.c.suffix.test")
    wanted = {**dict.fromkeys(web, GATEWAY), **forwards}
    with served(settings, tmp_path) as nets:
        assert answers(nets, *wanted) == {name: [0, address] for name, address in wanted.items()}
