"""A desktop with a fresh system is the same desktop: its home and its identity, and nothing drifts."""

import json

import pytest

from tests.e2e.test_power import DESKTOP, IDENTITY, WAIT_SECONDS, preview
from tests.support.workspaces import Running

pytestmark = pytest.mark.vm

HOME = "findmnt --noheadings --output SOURCE --target /home"


@pytest.mark.boots
def test_desktop_keeps_home_and_identity_over_a_fresh_system(other: Running) -> None:
    target = f"{other.name}/{DESKTOP}"
    changes = "echo theirs > /opt/theirs; echo x > /etc/changed; install -D -m 600 /dev/null /etc/kept.d/deep/mine.conf"
    other.ssh(DESKTOP, f"echo mine > work; sudo sh -c '{changes}; echo kept > /etc/kept.d/deep/mine.conf'; sync")
    identity, home = other.ssh(DESKTOP, IDENTITY).stdout, other.ssh(DESKTOP, HOME).stdout
    refused = other.inv("desktop.reinstall", target, check=False)
    assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
    assert "already" in other.inv("desktop.upgrade", target, "--yes").stdout

    other.hang_up(DESKTOP)
    done = json.loads(other.inv("desktop.reinstall", target, "--yes", "--json", timeout=2 * WAIT_SECONDS).stdout)
    assert done["kept"] == ["/etc/kept.d/deep/mine.conf"]
    assert done["machines"] == [{"name": DESKTOP, "state": "running", "desired": "running"}]
    look = "cat work; sudo ls /opt/theirs; sudo tar tzf /home/.deskyard/before/etc.tar.gz"
    seen = other.ssh(DESKTOP, look, check=False)
    assert (seen.stdout.splitlines()[0], "etc/changed" in seen.stdout) == ("mine", True)
    assert "/opt/theirs" in seen.stderr
    kept = other.ssh(DESKTOP, "sudo stat -c %a%U /etc/kept.d/deep/mine.conf; sudo cat /etc/kept.d/deep/mine.conf")
    assert kept.stdout.split() == ["600root", "kept"]
    assert other.ssh(DESKTOP, "test -e /etc/changed", check=False).returncode == 1
    assert other.ssh(DESKTOP, IDENTITY).stdout == identity
    assert other.ssh(DESKTOP, HOME).stdout == home
    assert preview(other) == {}
    assert json.loads(other.inv("desktop.system", target, "--json").stdout)["kept"] is True
