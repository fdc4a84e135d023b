"""A tier's cap of processes in desktops with real systemd: by their kernel, live, both ways, and never against root."""

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from deskyard.desktop import process_cap, program
from deskyard.guest import processes
from deskyard.plan.account import AGENT
from tests.desktop.lab import Lab
from tests.desktop.owner import Owner
from tests.desktop.test_health import findings
from tests.support import greedy
from tests.support.requirements import missing

CAP, HIGHER, MOST = 256, 280, 320
TREE = "/sys/fs/cgroup/pids"
# systemd in a container finds the controllers of version 1, and may not write there at first.
COUNTED = f"if [ -d {TREE} ] && mount -o remount,rw,bind {TREE}; then systemctl daemon-reexec; fi"
STARTED = "systemctl show -p UserspaceTimestampMonotonic"
OURS = f"find {processes.SYSTEM} -name {processes.DROP_IN}"
SHOWN = "agent.slice, greedy.service, any other login, user-1500.slice"
# What a login may start: it forks until it is refused, and ends all of them when its input ends.
BOMB = f"""
import os, signal, sys
children, how = [], "whole"
while len(children) < {MOST} and how == "whole":
    try:
        child = os.fork()
    except BlockingIOError:
        how = "refused"
    else:
        child or signal.pause()
        children.append(child)
print(len(children), how, flush=True)
sys.stdin.read()
for child in children:
    os.kill(child, signal.SIGKILL)
"""
# Past systemd, as root of the desktop may.
UNCAP = f"""
[ -d {TREE} ] && tree={TREE} || tree=/sys/fs/cgroup
echo max >$tree/system.slice/{greedy.SERVICE}/pids.max
"""
TASKS = f"systemctl show --property=TasksCurrent --value {greedy.SERVICE}"


@pytest.fixture
def greedy_desk(lab: Lab, owner: Owner) -> Iterator[Owner]:
    """A desktop with a service of its account that forked as often as it wants; never capped, nor at last."""
    lab.do("desk", COUNTED)
    try:
        lab.do("desk", greedy.start(AGENT, MOST))
        assert lab.do("desk", greedy.said(0)).stdout == f"0 {MOST} whole\n"
        if not lab.do("desk", TASKS).stdout.strip().isdecimal():
            missing("a kernel that counts the processes of containers")
        yield owner
    finally:
        lab.do("desk", greedy.end())
        process_cap.deliver(lab.plan, {"desk": None})
        process_cap.forget(lab.plan.site, lab.plan.name, "desk")


def declare(owner: Owner, cap: int | None) -> None:
    """Give the desktop a tier with that cap, or one without the word."""
    sites = owner.folder / "sites"
    sites.mkdir(exist_ok=True)
    tier = {"vcpus": 2, "memory_mib": 4096, "disk_gib": 20, **({} if cap is None else {"processes": cap})}
    (sites / "local.yaml").write_text(yaml.safe_dump({"tiers": {"steady": tier}}))
    owner.declare(desk=[], other=[])
    content = yaml.safe_load(owner.file.read_text())
    content["config"]["deskyard:desktops"][0]["tier"] = "steady"
    owner.file.write_text(yaml.safe_dump(content))


def limits(lab: Lab, host: str = "desk") -> dict[str, str]:
    """What systemd holds the parts to that are there for good."""
    names = (processes.AGENT_SLICE, greedy.SERVICE, "user-1500.slice")
    shown = lab.do(host, f"systemctl show --property=TasksMax --value {' '.join(names)}").stdout.split()
    return dict(zip(names, shown, strict=True))


def test_bomb_of_the_account_is_refused_at_the_cap_which_changes_and_goes_while_it_runs(
    lab: Lab, greedy_desk: Owner
) -> None:
    owner, before, started = greedy_desk, limits(lab), lab.do("desk", STARTED).stdout
    declare(owner, CAP)
    assert f"{CAP} processes at most in each of: {SHOWN} (changed)" in owner.up()
    assert set(limits(lab).values()) == {str(CAP)}
    lab.do("desk", f"systemctl restart {greedy.SERVICE}")
    # Itself is one of them.
    assert lab.do("desk", greedy.said(0)).stdout == f"0 {CAP - 1} refused\n"
    # Who comes in as Deskyard does still forks.
    lab.link.run("desk", ["sudo", "sh", "-c", "true & wait"], timeout=60)

    declare(owner, HIGHER)
    assert "(changed)" in owner.up()
    lab.do("desk", greedy.again())
    assert lab.do("desk", greedy.said(1)).stdout == f"1 {HIGHER - 1} refused\n"
    assert "(unchanged)" in owner.up()

    declare(owner, None)
    assert "desk: no cap of its processes (removed)" in owner.up()
    lab.do("desk", greedy.again())
    assert lab.do("desk", greedy.said(2)).stdout == f"2 {MOST} whole\n"
    assert limits(lab) == before
    assert lab.do("desk", OURS).stdout == ""
    assert lab.do("desk", STARTED).stdout == started


def test_login_that_is_at_the_cap_leaves_other_logins_their_own(lab: Lab, greedy_desk: Owner) -> None:
    declare(greedy_desk, CAP)
    greedy_desk.up()
    argv = lab.link.command("desk", ["sudo", "-n", "-u", AGENT, "python3", "-I", "-c", BOMB])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as login:
        assert login.stdout is not None
        children, how = login.stdout.readline().split()
        # sshd, sudo and itself are of the login, too.
        assert (how, CAP - 10 < int(children) < CAP) == ("refused", True)
        assert "(unchanged)" in greedy_desk.up()
        lab.link.run("desk", ["sudo", "sh", "-c", "true & wait"], timeout=60)
        login.communicate("", timeout=60)
    assert login.returncode == 0


def test_number_that_differs_is_found_and_set_again_by_up(lab: Lab, greedy_desk: Owner) -> None:
    declare(greedy_desk, CAP)
    greedy_desk.up()
    assert findings(lab, CAP)["processes"].state == "ok"
    lab.do("desk", UNCAP)
    found = findings(lab, CAP)["processes"]
    assert (found.state, f"{greedy.SERVICE} any number" in found.detail) == ("warning", True)
    assert "(changed)" in greedy_desk.up()
    assert findings(lab, CAP)["processes"].state == "ok"


def test_cap_that_root_of_the_desktop_overrules_is_said(lab: Lab, greedy_desk: Owner) -> None:
    theirs = f"{processes.SYSTEM}/{greedy.SERVICE}.d/95-mine.conf"
    lab.do("desk", f"mkdir -p $(dirname {theirs}); printf '[Service]\\nTasksMax=4000\\n' >{theirs}")
    declare(greedy_desk, CAP)
    output = greedy_desk.inv("workspace.up", "lab")
    assert output.code == 1
    assert f"lets some have more processes than {CAP}, which is its tier's: {greedy.SERVICE}" in output.err


def test_desktop_whose_tier_has_no_cap_is_not_asked(lab: Lab, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "ask", lambda *_, **__: pytest.fail("it was asked"))
    declare(owner, None)
    assert "processes" not in owner.up()
