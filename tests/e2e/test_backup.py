"""Backups of a real desktop: made while it runs, proved by booting it, taken back; a freeze ends by itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.plan.account import AGENT
from deskyard.site.libvirt import agent, daemon
from deskyard.site.libvirt.backup import freeze
from tests.e2e.test_power import DESKTOP, IDENTITY, WAIT_SECONDS, preview
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]


# The device that the agent of OpenClaw is, once it has made it.
LOOK = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone())"
LOOKED_AT = f'/home/{AGENT}/.openclaw/state/openclaw.sqlite "SELECT device_id FROM device_identities"'
DEVICE = f"sudo -u {AGENT} timeout 120 sh -c 'until python3 -c \"{LOOK}\" {LOOKED_AT} 2>/dev/null; do sleep 1; done'"


def write_as_agent(text: str) -> str:
    """The command that has the agent write into its home."""
    return f"sudo -u {AGENT} sh -c 'echo {text} > /home/{AGENT}/kept'"


def listed(running: Running) -> list[dict[str, Any]]:
    """The backups of its desktop."""
    found = json.loads(running.inv("backup.list", f"{running.name}/{DESKTOP}", "--json").stdout)
    return list(found["backups"])


@pytest.mark.boots
def test_desktop_comes_back_from_a_backup_that_was_booted(other: Running, tmp_path: Path) -> None:
    target = f"{other.name}/{DESKTOP}"
    identity = other.ssh(DESKTOP, IDENTITY).stdout
    other.ssh(DESKTOP, f"echo first > kept && {write_as_agent('first')} && sync")
    made = json.loads(other.inv("backup.run", target, "--json", timeout=WAIT_SECONDS).stdout)
    assert made["frozen_seconds"] > 0
    assert [disk["target"] for disk in made["backup"]["disks"]] == ["vda", "vdc"]
    other.inv("backup.verify", target, timeout=WAIT_SECONDS)
    newest = listed(other)[-1]
    assert (newest["id"], newest["verified"] is not None) == (made["backup"]["id"], True)
    assert not [name for name in daemon.state().domains if name.endswith(".verify")]

    other.ssh(DESKTOP, f"echo second > kept && {write_as_agent('second')} && sync")
    other.inv("backup.get", target, "/home/deskyard/kept", "--to", str(tmp_path), timeout=WAIT_SECONDS)
    assert (tmp_path / "kept").read_text() == "first\n"
    other.inv("backup.get", target, f"/home/{AGENT}/kept", "--to", target, "--force", timeout=WAIT_SECONDS)
    assert other.ssh(DESKTOP, f"sudo cat /home/{AGENT}/kept; cat kept").stdout == "first\nsecond\n"

    refused = other.inv("backup.restore", target, "latest", check=False)
    assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
    other.hang_up(DESKTOP)
    other.inv("backup.restore", target, "latest", "--yes", timeout=2 * WAIT_SECONDS)
    assert other.ssh(DESKTOP, "cat kept").stdout == "first\n"
    assert other.ssh(DESKTOP, IDENTITY).stdout == identity
    assert preview(other) == {}


@pytest.mark.boots
def test_another_desktop_is_made_of_a_backup_with_an_identity_of_its_own(other: Running) -> None:
    target, second = f"{other.name}/{DESKTOP}", "second"
    own = ("/etc/deskyard/agent-openclaw.env", "/home/.deskyard/identity/ssh_host_ed25519_key.pub")
    shown = f"{IDENTITY}; sudo cat {' '.join(own)}; {DEVICE}"
    other.ssh(DESKTOP, f"{write_as_agent('kept')} && sync")
    first = other.ssh(DESKTOP, shown).stdout.splitlines()
    other.inv("backup.run", target, timeout=WAIT_SECONDS)
    would = json.loads(
        other.inv("backup.restore", target, "latest", "--to", f"{other.name}/{second}", "--dry-run", "--json").stdout
    )
    try:
        other.inv("backup.restore", target, "latest", "--to", f"{other.name}/{second}", timeout=4 * WAIT_SECONDS)
        found = other.ssh(second, shown).stdout.splitlines()
        assert len(found) == len(first) and set(found) & set(first) == set()
        assert (found[0], found[2]) == (would["made"]["machine_id"], second)
        assert other.ssh(second, f"sudo cat /home/{AGENT}/kept").stdout == "kept\n"
        assert other.ssh(DESKTOP, shown).stdout.splitlines() == first
        assert preview(other) == {}
        # What a boot makes anew is its own, too.
        other.hang_up(second)
        other.inv("desktop.restart", f"{other.name}/{second}", timeout=WAIT_SECONDS)
        assert other.ssh(second, shown).stdout.splitlines() == found
    finally:
        other.hang_up(second)
        other.declared.write()
        other.inv("workspace.up", other.name, "--remove", second, "--no-backup", timeout=WAIT_SECONDS)


def test_freeze_ends_by_itself_if_nobody_thaws(other: Running) -> None:
    with daemon.machine(other.plan.desktop(DESKTOP).machine.domain) as machine:
        freeze.release(machine)
        freeze.watchdog(machine)
        assert int(agent.call(machine, "guest-fsfreeze-freeze", seconds=freeze.FREEZE_SECONDS)) > 0
        # It waits until the file system takes the file: nobody here thaws it.
        other.ssh(DESKTOP, "touch written && sync")
        # The agent still believes it to be frozen, and runs no program, until the next backup or resume tells it.
        with pytest.raises(SiteError, match="disabled"):
            agent.execute(machine, ["/bin/true"])
        freeze.release(machine)
        assert agent.execute(machine, ["/bin/true"])[0] == 0
