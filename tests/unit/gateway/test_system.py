"""How long a gateway waits for the programs that put settings into force, held against what they may take."""

import re
from pathlib import Path

import pytest

from deskyard.gateway.machine import system
from deskyard.site.resource.gateway_settings import APPLY_SECONDS

ROLES = Path(__file__).resolve().parents[3] / "ansible/roles"
RENEWAL = "session_service/files/deskyard-renew.service"
UNITS = (
    "session_service/files/deskyard-session.service",
    "session_service/files/deskyard-view.service",
    "egress_filter/files/deskyard-egress.service",
    "websocket_proxy/files/haproxy.conf",
)


def start_seconds(unit: str) -> int:
    """How long systemd gives a unit to start."""
    (seconds,) = re.findall(r"^TimeoutStartSec=(\d+)$", (ROLES / unit).read_text(), re.MULTILINE)
    return int(seconds)


@pytest.mark.parametrize("unit", UNITS)
def test_slow_start_of_a_unit_is_waited_for_until_systemd_gives_it_up(unit: str) -> None:
    assert start_seconds(unit) < system.SECONDS


def test_host_waits_until_a_gateway_has_put_back_what_did_not_start() -> None:
    assert APPLY_SECONDS > 3 * system.SECONDS


def test_unit_of_the_certificate_outlives_its_programs() -> None:
    assert start_seconds(RENEWAL) > 3 * system.SECONDS


def test_program_that_does_not_end_is_ended_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "SECONDS", 0.2)
    answer = system.Machine().run(["sleep", "60"])
    assert (answer.code, answer.output) == (124, "sleep did not end within 0 seconds")
