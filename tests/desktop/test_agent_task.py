"""A task reaches the agent over SSH through the gateway: as the agent's account, shown nowhere, ended with who asked.

A small server stands for OpenClaw's gateway here; the real one is asked in tests/catalogue/test_agent_task.py.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.agent import task
from tests.desktop.lab import Lab
from tests.desktop.owner import Owner
from tests.support import agent_server
from tests.support.processes import watching

TOKEN, TEXT = "canary-9d10-token", "canary-5b7e-text"
UNIT = f"""[Service]
User=agent
ExecStart=/usr/bin/python3 /opt/agent_server.py {task.SECRET} /home/agent/agent.log --port 18789
"""
PREPARE = f"""
systemctl daemon-reload
mkdir -p /etc/deskyard
echo OPENCLAW_GATEWAY_TOKEN={TOKEN} >{task.SECRET}
chown root:agent {task.SECRET}
chmod 0640 {task.SECRET}
rm -f /home/agent/agent.log
systemctl restart {task.UNIT}
"""
CLEAN = f"systemctl stop {task.UNIT}; rm -f /etc/systemd/system/{task.UNIT} {task.SECRET}"
PROGRAMS = "ps -u agent -o args= | grep '[p]ython3 -I -c'"
JOURNAL = "journalctl --sync; journalctl --all --output=export --no-pager"
SECONDS = 90.0


@pytest.fixture(autouse=True)
def agent(lab: Lab, owner: Owner) -> Iterator[None]:
    """An agent on `desk`, none on `other`."""
    owner.declare(desk=[], other=[])
    (lab.root("desk") / "opt/agent_server.py").write_text(Path(agent_server.__file__).read_text())
    (lab.root("desk") / "etc/systemd/system" / task.UNIT).write_text(UNIT)
    lab.do("desk", PREPARE)
    yield
    lab.do("desk", f"{CLEAN}; systemctl daemon-reload")


def noted(lab: Lab) -> list[str]:
    """What the agent's gateway noted."""
    return lab.do("desk", "cat /home/agent/agent.log", check=False).stdout.splitlines()


def ended(lab: Lab) -> bool:
    """Whether the turn, and what was sent for it, has ended, after a while."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if "hung up" in noted(lab) and lab.do("desk", PROGRAMS, check=False).stdout == "":
            return True
        time.sleep(0.3)
    return False


def once_begun(lab: Lab, then: object) -> threading.Thread:
    """Do something when the agent has taken a task."""

    def wait() -> None:
        end = time.monotonic() + SECONDS
        while not noted(lab) and time.monotonic() < end:
            time.sleep(0.3)
        assert callable(then)
        then()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_answer_is_printed_and_nobody_else_sees_the_task(lab: Lab, owner: Owner) -> None:
    with watching() as seen:
        output = owner.inv("agent.task", "lab/desk", "-", "--session", "report", stdin=f"count {TEXT}\n")
    # What stands for it here is older than its protocol, which is said.
    assert (output.code, output.out) == (0, "".join(agent_server.PIECES))
    assert output.err.endswith("conversation report\n")
    assert noted(lab) == ["session report"]
    assert seen.looks > 10 and any(b"-I\0-c" in line for line in seen.shown["cmdline"])
    assert seen.places_of(TEXT) == seen.places_of(TOKEN) == []
    for host in ("gateway", "desk"):
        journal = lab.do(host, JOURNAL).stdout
        assert TEXT not in journal and TOKEN not in journal


def test_program_runs_as_the_agent_and_is_gone_afterwards(lab: Lab, owner: Owner) -> None:
    seen: list[str] = []
    watcher = once_begun(lab, lambda: seen.append(lab.do("desk", PROGRAMS).stdout))
    output = owner.inv("agent.task", "lab/desk", "hang", "--timeout", "30s")
    watcher.join(SECONDS)
    assert output.code == 124 and "--timeout gives it longer" in output.err
    assert len(seen) == 1 and "python3 -I -c" in seen[0]
    assert ended(lab)


def test_events_are_one_line_each(lab: Lab, owner: Owner) -> None:
    output = owner.inv("agent.task", "lab/desk", "count", "--json")
    events = [json.loads(line) for line in output.out.splitlines()]
    assert [event["event"] for event in events] == ["begin", "text", "text", "text", "end"]
    assert noted(lab) == [f"session {events[0]['session']}"]
    assert events[-1]["status"] == "done" and events[-1]["seconds"] > 0
    assert TOKEN not in output.out + output.err


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.usefixtures("ctrl_c")
def test_interruption_ends_the_task_on_the_desktop(lab: Lab, owner: Owner, sign: signal.Signals) -> None:
    once_begun(lab, lambda: os.kill(os.getpid(), sign))
    output = owner.inv("agent.task", "lab/desk", "hang", "--json")
    assert output.code == 130
    assert json.loads(output.out.splitlines()[-1])["status"] == "stopped"
    assert "did not say" not in output.err
    assert ended(lab)


def test_task_ends_with_the_connection(lab: Lab, owner: Owner) -> None:
    def cut() -> None:
        # As if this machine had gone away: nobody is told anything.
        found = subprocess.run(["pgrep", "-f", str(lab.link.config)], capture_output=True, text=True, check=True)
        for number in found.stdout.split():
            os.kill(int(number), signal.SIGKILL)

    once_begun(lab, cut)
    output = owner.inv("agent.task", "lab/desk", "hang")
    assert output.code == 1 and "lab/desk" in output.err
    assert ended(lab)


@pytest.mark.parametrize(
    ("desktop", "script", "reason", "remedy"),
    [
        ("other", "true", "has no agent", "image: agent"),
        ("desk", f"systemctl stop {task.UNIT}", "does not run", "systemctl status"),
        ("desk", f"chmod 0600 {task.SECRET}", "Permission denied", "agent-openclaw-secret"),
        ("nobody", "true", "is not in workspace lab", "desk, other"),
    ],
    ids=["no agent", "stopped", "secret", "unknown"],
)
def test_what_is_missing_is_said(lab: Lab, owner: Owner, desktop: str, script: str, reason: str, remedy: str) -> None:
    if desktop != "nobody":
        lab.do(desktop, script)
    output = owner.inv("agent.task", f"lab/{desktop}", "count")
    assert (output.code, output.out) == (1, "")
    assert reason in output.err and remedy in output.err
    output = owner.inv("agent.task", f"lab/{desktop}", "count", "--json")
    assert output.document["status"] == "failed" and reason in output.document["error"]["reason"]


def test_secret_that_the_gateway_does_not_know_is_refused(lab: Lab, owner: Owner) -> None:
    lab.do("desk", f"sed -i s:{task.SECRET}:/home/agent/other: /etc/systemd/system/{task.UNIT}")
    lab.do("desk", "echo X=another >/home/agent/other", user="agent")
    lab.do("desk", f"systemctl daemon-reload; systemctl restart {task.UNIT}")
    output = owner.inv("agent.task", "lab/desk", "count")
    assert output.code == 1 and "does not know its own secret: 401 Unauthorized" in output.err
    assert TOKEN not in output.err


def test_desktop_with_another_host_key_is_told_nothing(lab: Lab, owner: Owner) -> None:
    right = lab.link.known_hosts.read_text()
    strange = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(owner.folder / "strange")]
    subprocess.run(strange, check=True, timeout=60)
    lab.link.pin("desk", " ".join((owner.folder / "strange.pub").read_text().split()[:2]))
    try:
        output = owner.inv("agent.task", "lab/desk", f"count {TEXT}")
    finally:
        lab.link.known_hosts.write_text(right)
    assert output.code == 1 and "Host key verification failed" in output.err
    assert noted(lab) == []


def test_answer_cannot_drive_the_terminal(lab: Lab, owner: Owner) -> None:
    assert owner.inv("agent.task", "lab/desk", "escape").out == "a?[2Jb?c?d\te\n"
