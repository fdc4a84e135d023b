"""Many desktops and no way out; leases and names survive a crash and a lease file that is rubbish."""

import json
from typing import Any

import pytest

from deskyard.lab.hosts import OUTSIDE_NAME
from deskyard.wire.gateway_settings import Settings
from tests.gateway.test_dns import ASK, DISCOVER
from tests.molecule.conftest import Eventually

LEASES = "/var/lib/deskyard-dns/leases"


def answers(desktop: Any, settings: Settings, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        desktop.check_output("python3 -c %s %s %s", ASK, settings.workspace_address, json.dumps(names))
    )
    return found


def leases(desktop: Any, mac: str) -> str | None:
    offer = json.loads(desktop.check_output("python3 -c %s %s", DISCOVER, mac))
    return offer and str(offer["address"])


def process(host: Any) -> str:
    return str(host.check_output("systemctl show -p MainPID --value deskyard-dns.service"))


def test_every_desktop_has_its_name_and_nothing_leaves(
    desktop: Any, settings: Settings, eventually: Eventually
) -> None:
    assert len(settings.desktops) > 50
    first = settings.desktops[0]
    eventually(lambda: answers(desktop, settings, first.name)[first.name] is not None, "a lease and an answer")
    wanted = {desktop.name: [0, desktop.address] for desktop in settings.desktops}
    assert answers(desktop, settings, *wanted) == wanted
    for name in (OUTSIDE_NAME, "secret-data.tunnel.test"):
        assert answers(desktop, settings, name)[name] == [3, None]


@pytest.mark.parametrize("place", [0, -1])
def test_service_comes_back_from_a_crash_with_its_leases(
    host: Any, desktop: Any, settings: Settings, eventually: Eventually, place: int
) -> None:
    chosen = settings.desktops[place]
    assert leases(desktop, chosen.mac) == chosen.address
    before = process(host)
    host.run_test("systemctl kill --signal=KILL deskyard-dns.service")
    eventually(lambda: process(host) not in ("0", before), "another process")
    eventually(lambda: leases(desktop, chosen.mac) == chosen.address, "the lease of before")


def test_rubbish_in_the_lease_file_costs_nobody_the_address(
    host: Any, desktop: Any, settings: Settings, eventually: Eventually
) -> None:
    host.run_test(f"head -c 4096 /dev/urandom >{LEASES}; systemctl restart deskyard-dns.service")
    for machine in (settings.desktops[0], settings.desktops[-1]):
        eventually(lambda machine=machine: leases(desktop, machine.mac) == machine.address, "the lease of before")  # type: ignore[misc]
    assert leases(desktop, "52:54:00:66:66:66") is None
