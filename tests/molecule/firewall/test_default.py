"""A gateway with settings: what a desktop and the outside can reach is what the Plan says."""

from collections.abc import Callable

from deskyard.lab.hosts import METADATA, OUTSIDE_PORTS, PRIVATE, PUBLIC
from deskyard.wire.gateway_settings import Settings
from tests.molecule.conftest import Eventually, Machine


def test_desktop_reaches_the_internet_and_nothing_inside(
    connects: Callable[..., dict[str, bool]], settings: Settings, eventually: Eventually
) -> None:
    inside = [settings.host_address, METADATA, PRIVATE]
    own = [settings.workspace_address, settings.uplink_address]
    never = [f"{address}:{port}" for address in (*inside, *own) for port in (*OUTSIDE_PORTS, 8700)]
    eventually(lambda: all(connects(f"{PUBLIC}:80").values()), "a lease and a way out")
    assert connects(*never) == dict.fromkeys(never, False)
    allowed = [f"{PUBLIC}:{port}" for port in OUTSIDE_PORTS] + [f"{settings.workspace_address}:53"]
    assert connects(*allowed) == dict.fromkeys(allowed, True)


def test_outside_reaches_the_door_and_ssh_alone(machine: Machine, settings: Settings) -> None:
    machine.run("ip", "route", "replace", str(settings.workspace_network), "via", settings.uplink_address)
    addresses = [settings.uplink_address, settings.workspace_address, settings.desktops[0].address]
    asked = [f"{address}:{port}" for address in addresses for port in (22, 53, 80, 443, 6080, 8700)]
    door = {f"{settings.uplink_address}:{port}" for port in (22, 443)}
    assert {where for where, passed in machine.connects(*asked).items() if passed} == door
