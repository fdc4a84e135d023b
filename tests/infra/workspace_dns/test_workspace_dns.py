"""DHCP and DNS answer on the workspace side alone, and only with settings."""

import json
from collections.abc import Callable
from typing import Any

SETTINGS = "/etc/deskyard/settings.json"


def test_service_is_enabled_and_runs_only_with_settings(host: Any) -> None:
    service = host.service("deskyard-dns.service")
    assert service.is_enabled
    assert service.is_running == host.file("/etc/deskyard/dnsmasq.conf").exists


def test_debian_brings_no_second_server(host: Any) -> None:
    assert not host.package("dnsmasq").is_installed


def test_dns_listens_on_the_workspace_side_alone(host: Any) -> None:
    lines = host.check_output("ss -H -lntup").splitlines()
    mine = [line.split()[4] for line in lines if '"dnsmasq"' in line]
    if not host.file(SETTINGS).exists:
        assert mine == []
        return
    address = json.loads(host.file(SETTINGS).content_string)["workspace_address"]
    assert {f"{address}:53", "0.0.0.0%workspace:67"} == set(mine)


def test_configuration_is_good_and_leases_only_to_desktops_of_the_plan(host: Any) -> None:
    if not host.file(SETTINGS).exists:
        return
    settings = json.loads(host.file(SETTINGS).content_string)
    host.run_test("dnsmasq --test --conf-file=/etc/deskyard/dnsmasq.conf")
    lines = host.file("/etc/deskyard/dnsmasq.conf").content_string.splitlines()
    leases = {line for line in lines if line.startswith("dhcp-host=")}
    assert leases == {f"dhcp-host={d['mac']},{d['address']},{d['name']},12h" for d in settings["desktops"]}
    assert "dhcp-ignore=tag:!known" in lines


def test_packages_of_the_role_are_installed(host: Any, defaults: dict[str, Any]) -> None:
    assert all(host.package(name).is_installed for name in defaults["workspace_dns_packages"])


def test_names_of_the_workspace_are_answered(host: Any, eventually: Callable[[Callable[[], bool], str], None]) -> None:
    if not host.file(SETTINGS).exists:
        return
    settings = json.loads(host.file(SETTINGS).content_string)
    first = settings["desktops"][0]
    ask = f"{ASK} {settings['workspace_address']} {first['name']}"
    eventually(lambda: first["address"] in host.run(ask).stdout, "an answer of the workspace's DNS")
    assert host.run(f"{ASK} {settings['workspace_address']} no-such-desktop").stdout.strip() == ""


# The gateway has no dig: a question for an A record, asked by hand; prints the addresses of the answer.
ASK = """python3 -c '
import socket, struct, sys
name = b"".join(bytes([len(p)]) + p.encode() for p in sys.argv[2].split(".")) + bytes(1)
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); line.settimeout(3)
line.sendto(struct.pack(">6H", 7, 256, 1, 0, 0, 0) + name + struct.pack(">2H", 1, 1), (sys.argv[1], 53))
data = line.recv(512)
if struct.unpack(">H", data[6:8])[0]: print(socket.inet_ntoa(data[-4:]))
'"""
