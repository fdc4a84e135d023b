"""What a desktop says of itself, over real SSH on a real systemd."""

import time

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
