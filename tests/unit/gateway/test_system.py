"""How long a gateway waits for the programs that put settings into force, held against what they may take."""

import re
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from deskyard.access.gateway_program import CHANGE_SECONDS
from deskyard.gateway.config.replacement import RELOAD_DOOR
from deskyard.gateway.machine import system
from deskyard.site.resource.gateway_settings import APPLY_SECONDS

ROLES = Path(__file__).resolve().parents[3] / "ansible/roles"
RENEWAL = "session_service/files/deskyard-renew.service"
STOP_SECONDS = 90  # by systemd's own default
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


def commands(unit: str, kinds: str) -> int:
    """How many commands of these kinds a unit has: systemd gives each of them its time anew."""
    return len(re.findall(rf"^Exec(?:{kinds})=.", (ROLES / unit).read_text(), re.MULTILINE))


@pytest.mark.parametrize("unit", UNITS)
def test_slow_start_of_a_unit_is_waited_for_until_systemd_gives_it_up(unit: str) -> None:
    starts, reloads = commands(unit, "Condition|StartPre|Start|StartPost"), commands(unit, "Reload")
    # What cannot reload is restarted, and stopped before.
    before = 0 if reloads else STOP_SECONDS
    assert before + max(starts, reloads) * start_seconds(unit) < system.UNIT_SECONDS


def test_commands_of_the_unit_that_has_most_are_counted() -> None:
    kinds = ("Condition|StartPre|Start|StartPost", "Reload")
    assert max(commands(unit, kind) for unit in UNITS for kind in kinds) == system.COMMANDS


@pytest.mark.parametrize("host_seconds", [APPLY_SECONDS, CHANGE_SECONDS], ids=["apply", "change"])
def test_host_waits_until_a_gateway_has_put_back_what_did_not_start(host_seconds: float) -> None:
    assert host_seconds > 3 * system.UNIT_SECONDS


def test_unit_of_the_certificate_outlives_its_programs() -> None:
    assert start_seconds(RENEWAL) > 2 * system.SECONDS + 2 * system.UNIT_SECONDS


def test_program_that_does_not_end_is_ended_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "SECONDS", 0.2)
    answer = system.Machine().run(["sleep", "60"])
    assert (answer.code, answer.output) == (124, "sleep did not end within 0 seconds")


def test_systemctl_is_waited_for_as_long_as_a_unit_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    run = mock.Mock(return_value=subprocess.CompletedProcess([], 0, "", ""))
    monkeypatch.setattr("deskyard.gateway.machine.system.subprocess.run", run)
    for argv, seconds in ((RELOAD_DOOR, system.UNIT_SECONDS), (("nft", "-f", "rules"), system.SECONDS)):
        assert system.Machine().run(argv).code == 0
        assert run.call_args.kwargs["timeout"] == seconds
