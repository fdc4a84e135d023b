"""Real workspaces for tests: declared in a folder of the test, driven through ./inv as a user does."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml

from deskyard.host.places import places, tree
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.workspace import Accelerator, WorkspacePlan, plan_workspace

UP_SECONDS = 2400
SSH_SECONDS = 240


@dataclass(frozen=True)
class Declared:
    """A workspace as its user declares it; `folder` is where its stack file lies."""

    name: str
    network: str
    gateway_port: int
    desktops: tuple[str, ...]
    folder: Path
    egress_allow: tuple[str, ...] | None = None  # the list of a locked workspace; none: egress is open
    egress_ask: tuple[str, ...] = ()  # names of a locked workspace that a person is asked about
    image: str | None = None  # that of its desktops; none: the usual one
    keep: tuple[str, ...] = ()  # what of /etc outlives an exchange of the system
    checkout: Path = field(default_factory=tree)  # where ./inv is run

    def write(self) -> None:
        """Write the stack file, keeping what Pulumi added to it."""
        path = self.folder / f"Pulumi.{self.name}.yaml"
        kept = yaml.safe_load(path.read_text()) if path.exists() else {}
        config = {f"deskyard:{key}": value for key, value in self.values().items()}
        path.write_text(yaml.safe_dump({**kept, "config": config}))

    def values(self) -> dict[str, Any]:
        """The keys of the declaration."""
        lists = {"egress_allow": list(self.egress_allow or ()), "egress_ask": list(self.egress_ask)}
        locked = {} if self.egress_allow is None else {"egress": "locked", **lists}
        return {
            "network": self.network,
            "gateway_port": self.gateway_port,
            "desktops": [{"name": name} for name in self.desktops],
            **locked,
            **({"image": self.image} if self.image else {}),
            **({"keep": list(self.keep)} if self.keep else {}),
        }


@dataclass(frozen=True)
class Running:
    """A workspace that is up."""

    declared: Declared
    plan: WorkspacePlan

    @property
    def name(self) -> str:
        """Its name."""
        return self.declared.name

    def inv(
        self, *arguments: str, timeout: float = 300, check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a task of ./inv on the test's stacks folder."""
        declared = self.declared
        return inv(declared.folder, *arguments, timeout=timeout, check=check, stdin=stdin, checkout=declared.checkout)

    def ssh(self, host: str, command: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in a guest: `gateway` or a desktop's name."""
        argv = [*self._ssh(), "-o", f"ControlPath={self.master(host)}", host, command]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=SSH_SECONDS, check=False)
        assert not check or done.returncode == 0, f"{host}: {command}\n{done.stdout}\n{done.stderr}"
        return done

    def master(self, host: str) -> Path:
        """The socket of one connection for all commands of a guest: an emulated machine takes seconds to greet.

        The connection is opened apart from any command, so that its processes hold no command's output open; it ends
        by itself when unused.
        """
        socket = self.declared.folder / f"{self.name}-{host}.ssh"
        alive = subprocess.run(
            [*self._ssh(), "-o", f"ControlPath={socket}", "-O", "check", host], capture_output=True, check=False
        )
        if alive.returncode:
            patience = ["ConnectTimeout=180", "ServerAliveCountMax=20"]
            options = ["ControlMaster=yes", f"ControlPath={socket}", "ControlPersist=120", *patience]
            argv = [*self._ssh(), *(part for option in options for part in ("-o", option)), "-fN", host]
            quiet = subprocess.DEVNULL
            # A file: what goes on in the background would hold a pipe open.
            with socket.with_suffix(".log").open("w+b") as said:
                done = subprocess.run(argv, stdin=quiet, stdout=quiet, stderr=said, timeout=SSH_SECONDS, check=False)
                said.seek(0)
                assert done.returncode == 0, f"no connection to {host}: {said.read().decode(errors='replace')}"
        return socket

    def hang_up(self, host: str) -> None:
        """End the connection of a guest: to one that went back in time, or off, it would answer no more."""
        argv = [*self._ssh(), "-o", f"ControlPath={self.declared.folder}/{self.name}-{host}.ssh", "-O", "exit", host]
        subprocess.run(argv, capture_output=True, timeout=SSH_SECONDS, check=False)

    def _ssh(self) -> list[str]:
        return ["ssh", "-F", str(places().workspace(self.plan.site, self.name) / "ssh_config")]

    def grant(self, desktop: str = "desk", *options: str) -> dict[str, Any]:
        """Grant access as an operator does."""
        answer = self.inv("access.grant", f"{self.name}/{desktop}", "--json", *options)
        granted: dict[str, Any] = json.loads(answer.stdout)
        return granted


def inv(
    folder: Path,
    *arguments: str,
    timeout: float = 300,
    check: bool = True,
    stdin: str = "",
    checkout: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ./inv, of this tree or another checkout, with the stacks and the Pulumi state of the test."""
    env = {**os.environ, "DESKYARD_STACKS": str(folder), "PULUMI_BACKEND_URL": f"file://{folder}"}
    argv = ["./inv", *arguments]
    where = checkout or tree()
    done = subprocess.run(
        argv, cwd=where, env=env, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert not check or done.returncode == 0, f"./inv {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done


@contextmanager
def start_inv(running: Running, *arguments: str, stderr: IO[str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A task of ./inv that goes on; it leads a group of its own, and is ended at last."""
    folder, where = running.declared.folder, running.declared.checkout
    env = {**os.environ, "DESKYARD_STACKS": str(folder), "PULUMI_BACKEND_URL": f"file://{folder}"}
    argv = ["./inv", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, cwd=where, env=env, stdout=pipe, stderr=stderr, text=True, start_new_session=True
    ) as task:
        try:
            yield task
        finally:
            with suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGKILL)


def plan(declared: Declared, accelerator: Accelerator) -> WorkspacePlan:
    """The Plan the tests take their expectations from."""
    workspace = Workspace.check({"name": declared.name, **declared.values()}, "test")
    return plan_workspace(workspace, Site(), accelerator)


def bring_up(declared: list[Declared]) -> None:
    """Bring several workspaces up at once; their desktops go on from one template, which stays as images do."""
    kept = {workspace.name for workspace in declared if places().workspace(Site().name, workspace.name).exists()}
    for workspace in declared:
        workspace.write()
    with ThreadPoolExecutor(len(declared)) as pool:
        for workspace, done in zip(declared, pool.map(_up, declared), strict=True):
            print(done.stdout, done.stderr)
            # A boot in place of it would pass all tests, and none would be of a warm start.
            assert " boots: " not in done.stderr, done.stderr
            assert workspace.name in kept or "goes on from template-" in done.stderr, done.stderr


def _up(workspace: Declared) -> subprocess.CompletedProcess[str]:
    arguments = ("workspace.up", workspace.name, "--warm")
    return inv(workspace.folder, *arguments, timeout=UP_SECONDS, checkout=workspace.checkout)


def take_down(declared: list[Declared]) -> None:
    """Destroy several workspaces; every one is tried."""
    failures = []
    for workspace in declared:
        options = ("--yes", "--no-backup")
        arguments = ("workspace.destroy", workspace.name, *options)
        done = inv(workspace.folder, *arguments, timeout=600, check=False, checkout=workspace.checkout)
        if done.returncode:
            failures.append(f"{workspace.name}: {done.stdout}\n{done.stderr}")
        forget_backups(workspace.name)
    assert not failures, "\n".join(failures)


def forget_backups(name: str) -> None:
    """Backups outlive a workspace; those of tests do not."""
    site = places().sites / "local"
    shutil.rmtree(site / "backups" / name, ignore_errors=True)
    (site / "backup-keys" / name).unlink(missing_ok=True)
