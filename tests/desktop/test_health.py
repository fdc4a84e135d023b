"""What a desktop says of itself, over real SSH on a real systemd."""

import time
from collections.abc import Callable, Iterator

import pytest

from deskyard.desktop import program
from deskyard.guest import health as guest_health
from deskyard.plan import health
from tests.desktop.lab import Lab


def findings(lab: Lab, processes: int | None = None) -> dict[str, health.Finding]:
    begin = time.time()
    answer = program.ask(lab.plan, "desk", guest_health, {})
    looked = health.inside(answer, (begin, time.time()), "lab/desk", processes)
    return {found.check: found for found in looked}


def test_failed_unit_is_named_until_it_is_mended(lab: Lab) -> None:
    before = findings(lab)
    assert before["clock"].state == "ok"
    assert before["file system"].state == "ok"
    lab.do("desk", "systemd-run --quiet --unit=broken false")
    lab.do("desk", "timeout 60 sh -c 'until systemctl is-failed --quiet broken; do sleep 0.1; done'")
    try:
        found = findings(lab)["units"]
        assert (found.state, "broken.service" in found.detail) == ("failed", True)
    finally:
        lab.do("desk", "systemctl reset-failed broken")
    assert "broken.service" not in findings(lab)["units"].detail


def test_restart_that_updates_wait_for_is_told(lab: Lab) -> None:
    lab.do("desk", "touch /run/reboot-required")
    try:
        assert findings(lab)["restart"].state == "warning"
    finally:
        lab.do("desk", "rm /run/reboot-required")
    assert findings(lab)["restart"].state == "ok"


LOOPING = """
[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/sh -c '{what}'
Restart=always
RestartSec={pause}
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def service(lab: Lab) -> Iterator[Callable[[str, str], None]]:
    """Makes service `agent-x`, enabled and started, of what it does and how long systemd waits to start it again."""

    def make(what: str, pause: str) -> None:
        text = LOOPING.format(what=what, pause=pause)
        script = f"cat >/etc/systemd/system/agent-x.service <<'E'\n{text}E\n"
        lab.do("desk", script + "systemctl daemon-reload; systemctl --quiet enable --now agent-x")

    yield make
    gone = "systemctl --quiet disable --now agent-x; rm /etc/systemd/system/agent-x.service; systemctl daemon-reload"
    lab.do("desk", f"{gone}; systemctl reset-failed agent-x 2>/dev/null || true")


def restarted(lab: Lab, times: int) -> None:
    """Return once systemd has started it again so often."""
    shown = "systemctl show --value --property NRestarts agent-x"
    lab.do("desk", f"timeout 60 sh -c 'until [ $({shown}) -ge {times} ]; do sleep 0.1; done'")


def waits_for_its_next_start(lab: Lab) -> None:
    """Return once it has died."""
    waits = "systemctl show -P SubState agent-x | grep -q auto-restart"
    lab.do("desk", f"timeout 60 sh -c 'until {waits}; do sleep 0.1; done'")


def test_service_that_waits_for_its_next_start_again_and_again_is_a_failure_though_systemd_calls_it_activating(
    lab: Lab, service: Callable[[str, str], None]
) -> None:
    assert "agent-x" not in findings(lab)["services"].detail
    service("exit 1", "2")
    restarted(lab, 3)
    waits_for_its_next_start(lab)
    looked = findings(lab)
    assert "agent-x.service" not in looked["units"].detail
    found = looked["services"]
    assert (found.state, "agent-x.service" in found.detail) == ("failed", True)


def test_service_that_died_once_and_waits_for_its_next_start_is_no_failure(
    lab: Lab, service: Callable[[str, str], None]
) -> None:
    service("exit 1", "600")
    waits_for_its_next_start(lab)
    assert "agent-x" not in findings(lab)["services"].detail


def test_service_that_has_just_come_again_is_a_failure_and_one_that_runs_is_none(
    lab: Lab, service: Callable[[str, str], None]
) -> None:
    flag = "/run/agent-x"
    service(f"test -e {flag} && exec sleep infinity; exit 1", "100ms")
    restarted(lab, 3)
    lab.do("desk", f"touch {flag}; timeout 60 sh -c 'until systemctl is-active --quiet agent-x; do sleep 0.1; done'")
    try:
        found = findings(lab)["services"]
        assert (found.state, "agent-x.service" in found.detail) == ("failed", True)
        # Begun anew by hand it has died never.
        lab.do("desk", "systemctl restart agent-x")
        assert "agent-x" not in findings(lab)["services"].detail
        lab.do("desk", "systemctl stop agent-x")
        found = findings(lab)["services"]
        assert (found.state, "off, though enabled: agent-x.service" in found.detail) == ("warning", True)
    finally:
        lab.do("desk", f"rm {flag}")
