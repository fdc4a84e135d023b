"""A desktop gets the address of the Plan, a stranger none; names inside and outside are answered."""

import json
from typing import Any

from deskyard.lab.hosts import OUTSIDE_NAME, PUBLIC
from deskyard.wire.gateway_settings import Settings
from tests.gateway.test_dns import ASK, DISCOVER
from tests.molecule.conftest import Eventually


def test_desktop_has_the_address_of_the_plan(desktop: Any, settings: Settings, eventually: Eventually) -> None:
    def addresses() -> list[str]:
        interfaces = json.loads(desktop.check_output("ip -json -4 address show scope global"))
        return [address["local"] for interface in interfaces for address in interface["addr_info"]]

    eventually(lambda: bool(addresses()), "a lease")
    assert addresses() == [settings.desktops[0].address]


def test_stranger_gets_no_lease(desktop: Any, settings: Settings) -> None:
    offers = [
        json.loads(desktop.check_output("python3 -c %s %s", DISCOVER, machine.mac)) for machine in settings.desktops
    ]
    assert [offer["address"] for offer in offers] == [desktop.address for desktop in settings.desktops]
    assert json.loads(desktop.check_output("python3 -c %s 52:54:00:66:66:66", DISCOVER)) is None


def test_names_are_answered(desktop: Any, settings: Settings) -> None:
    wanted = {**{desktop.name: desktop.address for desktop in settings.desktops}, OUTSIDE_NAME: PUBLIC}
    asked = desktop.check_output("python3 -c %s %s %s", ASK, settings.workspace_address, json.dumps(list(wanted)))
    assert json.loads(asked) == {name: [0, address] for name, address in wanted.items()}
