"""Desktops for a task, on machines: from the template to a command's exit code, given once, gone with their data."""

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deskyard.host.vm.accelerator import accelerator
from tests.support.workspaces import Declared, Running, inv, plan, start_inv, take_down

pytestmark = [pytest.mark.vm, pytest.mark.deep]

# The first task makes the template.
UP_SECONDS, RUN_SECONDS = 2400, 2400
SEATS = ("s1", "s2")


@dataclass(frozen=True)
class Tasks(Declared):
    """A workspace of seats alone; one desktop waits in its pool."""

    def values(self) -> dict[str, Any]:
        """The keys of the declaration."""
        seats = [{"name": name, "lifetime": "task"} for name in self.desktops]
        return {**super().values(), "desktops": seats, "pool": {"size": 1, "max_age": "1d"}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A workspace that has a gateway and no desktop yet."""
    folder: Path = tmp_path_factory.mktemp("stacks")
    declared = Tasks("e2e-tasks", "10.91.5.0/24", 18447, SEATS, folder)
    declared.write()
    try:
        # No template is made here: the first task makes the one that it lacks, which stays, as images do.
        print(inv(folder, "workspace.up", declared.name, timeout=UP_SECONDS).stderr)
        yield Running(declared, plan(declared, accelerator("auto")))
    finally:
        take_down([declared])


def states(running: Running) -> dict[str, str]:
    """The seats, as the pool lists them."""
    found = json.loads(running.inv("pool.list", running.name, "--json").stdout)
    return {row["name"]: row["state"] for row in found["seats"]}


def run(running: Running, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return running.inv("desktop.run", running.name, *arguments, timeout=RUN_SECONDS, **options)


def test_command_runs_in_a_desktop_of_its_own_that_is_gone_afterwards(running: Running) -> None:
    done = run(running, "--rm", "--", "hostname; id -un; cat /etc/machine-id; echo said >&2; exit 7", check=False)
    name, account, machine, *rest = done.stdout.split()
    assert (done.returncode, name, account, rest) == (7, "s1", "agent", [])
    assert "went on from" in done.stderr or "goes on from" in done.stderr
    assert "said" in done.stderr
    assert states(running) == {"s1": "free", "s2": "free"}
    again = run(running, "--rm", "--", "cat /etc/machine-id").stdout.split()
    assert again != [machine]


def test_desktop_is_given_once_and_is_where_a_declared_one_would_be(running: Running) -> None:
    running.inv("pool.fill", running.name, timeout=RUN_SECONDS)
    assert states(running) == {"s1": "waiting", "s2": "free"}
    claimed = json.loads(running.inv("pool.claim", running.name, "--json").stdout)
    assert (claimed["name"], claimed["address"]) == ("s1", running.plan.seat("s1").address)
    refused = running.inv("pool.claim", running.name, check=False)
    assert (refused.returncode, "no desktop waits in it" in refused.stderr) == (1, True)
    assert running.ssh("s1", "hostname -I").stdout.split() == [claimed["address"]]
    assert "url" in running.grant("s1")
    other = running.plan.seat("s2").address
    assert "up" in running.ssh("s1", "timeout 5 sh -c 'getent hosts gateway' && echo up").stdout
    assert running.ssh("s1", f"timeout 10 bash -c '</dev/tcp/{other}/22'", check=False).returncode != 0
    assert "nothing to change" in running.inv("workspace.preview", running.name, timeout=UP_SECONDS).stdout
    running.hang_up("s1")
    running.inv("desktop.release", f"{running.name}/s1", "--yes", timeout=RUN_SECONDS)
    assert states(running) == {"s1": "free", "s2": "free"}


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_task_that_is_ended_leaves_nothing_for_longer_than_to_the_next_one(
    running: Running, sign: signal.Signals
) -> None:
    with start_inv(running, "desktop.run", running.name, "--rm", "--", "echo begun; sleep 900") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(sign)
        process.wait(RUN_SECONDS)
    if sign is signal.SIGKILL:
        assert states(running) == {"s1": "claimed", "s2": "free"}
        running.inv("pool.fill", running.name, timeout=RUN_SECONDS)
        assert states(running) == {"s1": "waiting", "s2": "free"}
        running.inv("pool.drain", running.name, timeout=RUN_SECONDS)
    assert states(running) == {"s1": "free", "s2": "free"}
