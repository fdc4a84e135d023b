"""A shell in which Pulumi's own program works on a workspace: the same stack, secrets and folder as the tasks."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from deskyard.errors import HostError
from deskyard.workspace import shell
from tests.proxmox.bench import NAME, Bench

pytestmark = pytest.mark.sampled

SECONDS = 120


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A language host that is there; nothing here starts it."""
    host = folder / shell.LANGUAGE_HOST
    host.write_text("#!/bin/sh\nexit 1\n")
    host.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def evaluated(command: str) -> str:
    """The output of a command in such a shell, which has nothing else of this process."""
    script = f"{shell.script(shell.environment(NAME))}\n{command}"
    env = {"HOME": os.environ["HOME"], "PULUMI_CONFIG_PASSPHRASE": os.environ["PULUMI_CONFIG_PASSPHRASE"]}
    done = subprocess.run(["sh", "-euc", script], env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_engines_own_program_sees_the_stack_that_the_tasks_made(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.up()
    stand_in(tmp_path, monkeypatch)
    assert json.loads(evaluated("pulumi stack output --json"))["url"] == bench.rack.plan(NAME).plan.gateway.url
    assert evaluated("pulumi stack --show-name").strip() == NAME
    kept = json.loads(evaluated("pulumi stack export"))["deployment"]["resources"]
    assert any(resource["type"] == "deskyard:workspace:Workspace" for resource in kept)


def test_stack_of_a_new_workspace_is_made_with_the_passphrase_of_the_tasks(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.empty()
    bench.rack.declare(NAME, "dev1")
    stand_in(tmp_path, monkeypatch)
    known = "echo some-secret-value | pulumi config set --secret deskyard:probe; pulumi config get deskyard:probe"
    assert evaluated(known).strip() == "some-secret-value"
    assert "some-secret-value" not in (bench.rack.stacks / f"Pulumi.{NAME}.yaml").read_text()


def test_without_the_language_host_it_is_said_where_it_comes_from(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.up()
    monkeypatch.setattr(shell, "LANGUAGE_HOST", "no-such-language-host")
    with pytest.raises(HostError, match=r"no-such-language-host(.|\n)*from its release"):
        shell.environment(NAME)
