"""A desktop through its life: its programs, its files and its identity outlive what is done to it; nothing drifts."""

import json
import subprocess
import time
from typing import Any

import pytest

from deskyard.host.background import Background
from deskyard.host.places import places
from deskyard.site.libvirt import daemon
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]

DESKTOP = "desk"
WAIT_SECONDS = 1500
# A program with state in memory alone, apart from any session.
PROGRAM = "sudo systemd-run --quiet --unit=counting sh -c 'while :; do echo x >>/dev/shm/counted; sleep 1; done'"
IDENTITY = "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub; hostname; hostname -I"
BOOT = "cat /proc/sys/kernel/random/boot_id"
CLOCK_SECONDS = 2.0


def preview(running: Running) -> dict[str, int]:
    """What an `up` would change."""
    changes = json.loads(running.inv("workspace.preview", running.name, "--json").stdout)["changes"]
    return {kind: count for kind, count in changes.items() if kind != "same" and count}


def desktop(running: Running) -> dict[str, Any]:
    """The desktop as `workspace.status` has it."""
    found: dict[str, Any] = json.loads(running.inv("workspace.status", running.name, "--json").stdout)["desktops"][0]
    return found


def clock_is_right(running: Running) -> bool:
    before = time.time()
    now = float(running.ssh(DESKTOP, "date +%s.%N").stdout)
    return before - CLOCK_SECONDS <= now <= time.time() + CLOCK_SECONDS


@pytest.mark.boots
def test_desktop_outlives_all_that_is_done_to_its_power(other: Running) -> None:
    target = f"{other.name}/{DESKTOP}"
    other.ssh(DESKTOP, PROGRAM)
    identity, boot = other.ssh(DESKTOP, IDENTITY).stdout, other.ssh(DESKTOP, BOOT).stdout
    other.ssh(DESKTOP, "echo first > state && sync")
    try:
        for option in ((), ("--to-disk",)):
            other.inv("desktop.pause", target, *option)
            assert (desktop(other)["desired"], preview(other)) == ("paused", {})
            other.inv("desktop.resume", target, timeout=WAIT_SECONDS)
            assert clock_is_right(other)
            assert other.ssh(DESKTOP, "systemctl is-active counting").stdout == "active\n"
            assert other.ssh(DESKTOP, BOOT).stdout == boot

        other.inv("snapshot.create", target, "before", "--expires", "1h")
        other.ssh(DESKTOP, "echo second > state && sudo systemctl stop counting")
        refused = other.inv("snapshot.restore", target, "before", check=False)
        assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
        other.hang_up(DESKTOP)
        other.inv("snapshot.restore", target, "before", "--yes", timeout=WAIT_SECONDS)
        assert other.ssh(DESKTOP, "cat state; systemctl is-active counting").stdout == "first\nactive\n"
        assert clock_is_right(other)
        assert preview(other) == {}

        # Memory on disk is of other disks than those that come back: it goes, and the snapshot's own stands still.
        other.ssh(DESKTOP, "echo third > state && sync && sudo systemctl stop counting")
        other.inv("desktop.pause", target, "--to-disk")
        other.hang_up(DESKTOP)
        other.inv("snapshot.restore", target, "before", "--yes", timeout=WAIT_SECONDS)
        assert (desktop(other)["state"], desktop(other)["desired"], preview(other)) == ("paused", "paused", {})
        other.inv("desktop.resume", target, timeout=WAIT_SECONDS)
        assert other.ssh(DESKTOP, "cat state; systemctl is-active counting").stdout == "first\nactive\n"
        assert other.ssh(DESKTOP, BOOT).stdout == boot and clock_is_right(other)
        other.inv("snapshot.delete", target, "before", "--yes")

        other.hang_up(DESKTOP)
        other.inv("desktop.stop", target)
        assert (desktop(other)["state"], desktop(other)["desired"], preview(other)) == ("stopped", "off", {})
        up = other.inv("workspace.up", other.name, timeout=WAIT_SECONDS)
        assert f"desktop.start {target}" in up.stderr + up.stdout
        assert desktop(other)["state"] == "stopped"
    finally:
        other.hang_up(DESKTOP)
        other.inv("desktop.start", target, timeout=WAIT_SECONDS)
    assert other.ssh(DESKTOP, "cat state").stdout == "first\n"
    assert other.ssh(DESKTOP, IDENTITY).stdout == identity
    assert other.ssh(DESKTOP, BOOT).stdout != boot
    assert preview(other) == {}


def restart_hypervisor(running: Running) -> None:
    """End libvirt's daemon and start it again; the machines are processes of their own."""
    if daemon.namespace() is None:
        subprocess.run(["systemctl", "restart", "libvirtd"], check=True, timeout=120)
    else:
        Background("libvirtd", places().state / "hypervisor").stop()
    daemon.up(running.plan.accelerator)


def test_desktop_outlives_a_restart_of_its_hypervisor(other: Running) -> None:
    target = f"{other.name}/{DESKTOP}"
    other.ssh(DESKTOP, PROGRAM)
    try:
        boot = other.ssh(DESKTOP, BOOT).stdout
        restart_hypervisor(other)
        assert (desktop(other)["state"], desktop(other)["desired"], preview(other)) == ("running", "running", {})
        assert other.ssh(DESKTOP, "systemctl is-active counting").stdout == "active\n"
        # The new daemon knows the machine as its own, with its network.
        other.inv("desktop.pause", target)
        other.inv("desktop.resume", target, timeout=WAIT_SECONDS)
        assert other.ssh(DESKTOP, BOOT).stdout == boot
    finally:
        other.ssh(DESKTOP, "sudo systemctl stop counting", check=False)
