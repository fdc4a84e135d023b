"""Two desktops from one template, on machines: each is itself before it has a network, and stays so when it boots."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host.vm.accelerator import accelerator
from tests.support.workspaces import Declared, Running, inv, plan, take_down

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]

TEMPLATE_SECONDS, UP_SECONDS = 2400, 2400
CLOCK_SECONDS = 2.0
DESKTOPS = ("first", "second")
# What is done behind all that answers ends with it.
SETTLED = "timeout 200 sh -c 'until sudo test -s /var/lib/systemd/random-seed; do sleep 1; done'"
# What no two machines have in common; a DUID follows from the machine-id.
OWN = {
    "machine-id": "cat /etc/machine-id",
    "host key": "cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub",
    "hostname": "hostname",
    "address": "hostname -I",
    "boot": "cat /proc/sys/kernel/random/boot_id",
    "lease": "sudo grep -h CLIENTID /run/systemd/netif/leases/*",
    "random seed": f"{SETTLED} && sudo sha256sum /var/lib/systemd/random-seed",
}
KEPT = ("machine-id", "host key", "hostname", "address")
RESEEDED = "sudo dmesg | grep -c 'crng reseeded due to virtual machine fork'"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A workspace of two desktops that went on from one template."""
    folder: Path = tmp_path_factory.mktemp("stacks")
    declared = Declared("e2e-warm", "10.91.4.0/24", 18446, DESKTOPS, folder)
    declared.write()
    print(inv(folder, "image.warm", "desktop", timeout=TEMPLATE_SECONDS).stdout)
    try:
        # The template stays, as images do.
        up = inv(folder, "workspace.up", declared.name, timeout=UP_SECONDS)
        print(up.stderr)
        for name in DESKTOPS:
            assert f"{name} goes on from template-desktop-" in up.stderr
        yield Running(declared, plan(declared, accelerator("auto")))
    finally:
        take_down([declared])


def own(running: Running, desktop: str) -> dict[str, str]:
    """What makes a desktop itself."""
    return {what: running.ssh(desktop, command).stdout.strip() for what, command in OWN.items()}


def changes(running: Running) -> dict[str, int]:
    """What an `up` would change."""
    found = json.loads(running.inv("workspace.preview", running.name, "--json").stdout)["changes"]
    return {kind: count for kind, count in found.items() if kind != "same" and count}


def test_desktops_of_two_workspaces_from_one_template_are_two(ours: Running, other: Running) -> None:
    first, second = (own(running, "desk") for running in (ours, other))
    assert all(first.values())
    # The name is that of both declarations.
    assert {what for what in OWN if first[what] == second[what]} == {"hostname"}


@pytest.mark.deep
def test_desktops_from_one_template_have_nothing_of_their_own_in_common(running: Running) -> None:
    first, second = (own(running, name) for name in DESKTOPS)
    assert all(first.values())
    assert {what for what in OWN if first[what] == second[what]} == set()
    for name, found in zip(DESKTOPS, (first, second), strict=True):
        desktop = running.plan.desktop(name)
        assert (found["hostname"], found["address"]) == (name, desktop.address)
        assert running.ssh(name, RESEEDED).stdout.strip() == "1"
        assert running.ssh(name, "grep -c deskyard-template /etc/hosts; true").stdout.strip() == "0"
        before = time.time()
        now = float(running.ssh(name, "date +%s.%N").stdout)
        assert before - CLOCK_SECONDS <= now <= time.time() + CLOCK_SECONDS
    assert changes(running) == {}


@pytest.mark.deep
def test_desktop_is_still_itself_after_it_booted(running: Running) -> None:
    name = DESKTOPS[0]
    before = own(running, name)
    running.ssh(name, "echo kept > kept && sync")
    running.hang_up(name)
    running.inv("desktop.restart", f"{running.name}/{name}", timeout=UP_SECONDS)
    after = own(running, name)
    assert {what: after[what] for what in KEPT} == {what: before[what] for what in KEPT}
    assert after["boot"] != before["boot"]
    assert running.ssh(name, "cat kept").stdout == "kept\n"
    assert (
        running.ssh(name, "sudo cat /sys/class/dmi/id/product_uuid").stdout.strip().replace("-", "").lower()
        == (after["machine-id"])
    )
    assert changes(running) == {}
