"""A tier's cap of processes on a live machine: its own kernel holds the agent's account to it, and never root.

Every case of units, drift and refusals is in tests/desktop and tests/unit.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deskyard.desktop import process_cap
from deskyard.plan.account import AGENT
from tests.support import greedy
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]
# Nothing to change about the machines; emulated desktops take their time to greet.
UP_SECONDS, BOOT_SECONDS = 1200, 1500
CAP, MOST = 400, 500
FREE = {"vcpus": 2, "memory_mib": 4096, "disk_gib": 20, "home_gib": 10}
SESSION = "desktop-session.service"
HELD = f"cat /sys/fs/cgroup/system.slice/{SESSION}/pids.max"
PROCESS = f"systemctl show --value --property=MainPID {SESSION}"


def root(ours: Running, script: str) -> str:
    """What a script says that root runs on the desktop."""
    return ours.ssh("desk", "sudo sh -s", stdin=script).stdout


def up(ours: Running, cap: int | None) -> str:
    """Give the desktop a tier as large as its own with that cap, or without the word; what `up` says."""
    sites = ours.declared.folder / "sites"
    sites.mkdir(exist_ok=True)
    tier = {**FREE, **({} if cap is None else {"processes": cap})}
    (sites / "local.yaml").write_text(yaml.safe_dump({"tiers": {"held": tier}}))
    file = ours.declared.folder / f"Pulumi.{ours.name}.yaml"
    content = yaml.safe_load(file.read_text())
    content["config"]["deskyard:desktops"][0]["tier"] = "held"
    file.write_text(yaml.safe_dump(content))
    return ours.inv("workspace.up", ours.name, timeout=UP_SECONDS).stderr


@pytest.fixture
def desk(ours: Running) -> Iterator[Running]:
    """A desktop with a service of the account that forked as often as it wants; as it was before at the end."""
    file = ours.declared.folder / f"Pulumi.{ours.name}.yaml"
    before = file.read_text()
    try:
        root(ours, greedy.start(AGENT, MOST))
        assert root(ours, greedy.said(0)) == f"0 {MOST} whole\n"
        yield ours
        up(ours, None)
        process_cap.forget(ours.plan.site, ours.name, "desk")
    finally:
        file.write_text(before)
        (ours.declared.folder / "sites" / "local.yaml").unlink(missing_ok=True)
        root(ours, greedy.end())


def finding(ours: Running) -> dict[str, Any]:
    """What `desktop.health` says of processes."""
    done = ours.inv("desktop.health", f"{ours.name}/desk", "--json", check=False)
    (found,) = [row for row in json.loads(done.stdout)["machines"]["desk"] if row["check"] == "processes"]
    return dict(found)


def test_bomb_of_the_account_is_refused_at_the_cap_while_root_forks_and_lifts_it(desk: Running) -> None:
    session, uncapped = root(desk, PROCESS), root(desk, HELD)
    said = up(desk, CAP)
    for part in (SESSION, "web-terminal.service", "agent.slice", greedy.SERVICE):
        assert part in said
    assert (root(desk, HELD), finding(desk)["state"]) == (f"{CAP}\n", "ok")
    root(desk, f"systemctl restart {greedy.SERVICE}")
    # Itself is one of them.
    assert root(desk, greedy.said(0)) == f"0 {CAP - 1} refused\n"
    root(desk, "true & wait")
    # The session goes on beside it, drawn by the same process.
    assert desk.ssh("desk", f"sudo -u {AGENT} sh -c 'true & wait'").returncode == 0
    assert root(desk, PROCESS) == session

    assert "no cap of its processes (removed)" in up(desk, None)
    root(desk, greedy.again())
    assert root(desk, greedy.said(1)) == f"1 {MOST} whole\n"
    assert (root(desk, HELD), finding(desk)["detail"]) == (uncapped, "no cap")
    assert root(desk, PROCESS) == session


@pytest.mark.deep  # boots an emulated machine
def test_cap_is_there_after_a_boot_and_before_up(desk: Running) -> None:
    up(desk, CAP)
    desk.hang_up("desk")
    desk.inv("desktop.restart", f"{desk.name}/desk", timeout=BOOT_SECONDS)
    assert (root(desk, HELD), finding(desk)["state"]) == (f"{CAP}\n", "ok")
    root(desk, f"systemctl start {greedy.SERVICE}")
    assert root(desk, greedy.said(0)) == f"0 {CAP - 1} refused\n"
