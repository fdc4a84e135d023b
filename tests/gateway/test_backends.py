"""What leads to a desktop treats each desktop alike: no rule holds for one and is missing for its neighbour."""

import re

import pytest

from deskyard.gateway.config import render
from deskyard.gateway.machine.layout import Layout
from deskyard.wire.gateway_settings import Settings
from deskyard.wire.routes import RECORDINGS, ROUTES
from tests.gateway.support import Gateway
from tests.unit.gateway.support import parsed

BACKEND = re.compile(r"^backend be_(?P<desktop>.+)_(?P<route>[a-z]+)$", re.MULTILINE)


def rules_of_desktops(text: str, settings: Settings) -> dict[str, dict[str, str]]:
    """The rules to each route, by desktop, with what may differ taken out: name, address and sessions."""
    addresses = {desktop.name: str(desktop.address) for desktop in settings.desktops}
    found: dict[str, dict[str, str]] = {name: {} for name in addresses}
    parts = BACKEND.split(text)[1:]
    for name, route, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = [line for line in body.splitlines() if not line.startswith("    server ")]
        found[name][route] = re.sub(
            rf"\b({re.escape(name)}|{re.escape(addresses[name])})\b", "DESKTOP", "\n".join(lines)
        )
    return found


def ensure_alike(text: str, settings: Settings) -> None:
    """Fail unless all desktops of the settings have every route and their recordings, each with the same rules."""
    first, *others = rules_of_desktops(text, settings).values()
    assert others
    assert set(first) == {*ROUTES, RECORDINGS}
    assert all(other == first for other in others)


def test_rules_in_force_are_the_same_for_each_desktop(gateway: Gateway) -> None:
    gateway.session("d1")  # a session of one alone is no difference
    ensure_alike(gateway.layout.backends_file.read_text(), gateway.settings)


def test_rules_are_the_same_whatever_desktops_are_called() -> None:
    ensure_alike(render.backends(parsed(), Layout(), {}), parsed())


def test_rule_that_one_desktop_lacks_is_found(gateway: Gateway) -> None:
    text = gateway.layout.backends_file.read_text()
    before, found, behind = text.rpartition("    http-response set-header Cache-Control no-store\n")
    assert found
    with pytest.raises(AssertionError):
        ensure_alike(before + behind, gateway.settings)
