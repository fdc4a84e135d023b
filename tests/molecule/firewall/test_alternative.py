"""Default drop is in force before any interface is up, and stays whatever stops, dies or breaks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deskyard.wire.gateway_settings import Settings
from tests.molecule.conftest import Machine

BASE, APPLIED = "/etc/deskyard/firewall-base.nft", "/etc/deskyard/firewall.nft"
SERVICES = ["deskyard-firewall", "deskyard-dns", "deskyard-session", "haproxy", "systemd-networkd"]


def rules(host: Any) -> list[str]:
    """The ruleset, without the addresses that were seen."""
    lines = host.check_output("nft -s list ruleset").splitlines()
    return [line for line in lines if not line.strip().startswith("elements = {") or "expires" not in line]


@contextmanager
def broken(host: Any, path: str) -> Iterator[None]:
    """A file that the program refuses."""
    host.run_test(f"cp -p {path} {path}.good && echo 'no rules at all' >{path}")
    try:
        yield
    finally:
        host.run_test(f"mv {path}.good {path}")


@contextmanager
def without_watcher(host: Any) -> Iterator[None]:
    """Nobody who puts right what a power cut left half done: it would write the rules anew."""
    folder = "/etc/systemd/system/deskyard-egress-watch.service.d"
    host.check_output(f"mkdir {folder} && printf '[Unit]\\nConditionPathExists=/never\\n' >{folder}/never.conf")
    try:
        yield
    finally:
        host.check_output(f"rm -r {folder} && systemctl daemon-reload && systemctl start deskyard-egress-watch.service")


@pytest.mark.parametrize("how", ["stop", "kill --signal=KILL"])
@pytest.mark.parametrize("service", SERVICES)
def test_rules_stay_when_a_service_stops_or_dies(host: Any, service: str, how: str) -> None:
    before = rules(host)
    host.run(f"systemctl {how} {service}.service")
    try:
        assert rules(host) == before
    finally:
        # Others stop with what they require.
        host.run("systemctl reset-failed; systemctl start " + " ".join(f"{name}.service" for name in SERVICES))


def test_rules_survive_a_reboot_and_came_before_the_network(
    host: Any, machine: Machine, settings: Settings, reboot: Callable[[], None]
) -> None:
    before = rules(host)
    reboot()
    assert rules(host) == before
    door, closed = f"{settings.uplink_address}:443", f"{settings.uplink_address}:53"
    assert machine.connects(door, closed) == {door: True, closed: False}

    def began(unit: str, what: str) -> int:
        return int(host.check_output(f"systemctl show -p {what} --value {unit}.service"))

    loaded = began("deskyard-firewall", "ExecMainExitTimestampMonotonic")
    assert 0 < loaded <= began("systemd-networkd", "ExecMainStartTimestampMonotonic")


def test_without_base_rules_there_is_no_network(host: Any, reboot: Callable[[], None]) -> None:
    with broken(host, BASE):
        reboot()
        assert not host.service("systemd-networkd").is_running
        assert host.check_output("ip -4 -o address show scope global") == ""
        assert not host.service("haproxy").is_running
        assert not host.service("deskyard-dns").is_running
    reboot()
    assert host.service("systemd-networkd").is_running


def test_applied_rules_that_do_not_load_leave_the_base_rules(
    host: Any, machine: Machine, settings: Settings, reboot: Callable[[], None]
) -> None:
    whole = rules(host)
    with broken(host, APPLIED), without_watcher(host):
        reboot()
        fresh = host.check_output(f"unshare -n sh -c 'nft -f {BASE} && nft -s list ruleset'")
        assert rules(host) == fresh.splitlines()
        asked = [f"{settings.uplink_address}:{port}" for port in (22, 53, 443)]
        assert machine.connects(*asked) == dict(zip(asked, (True, False, False), strict=True))
    host.run_test("systemctl restart deskyard-firewall.service")
    assert rules(host) == whole


def test_the_watcher_mends_applied_rules_that_do_not_load(
    host: Any, reboot: Callable[[], None], eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    whole = rules(host)
    with broken(host, APPLIED):
        reboot()
        eventually(lambda: rules(host) == whole, "the rules that were applied")
