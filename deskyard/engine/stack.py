"""Drives Pulumi's engine for one workspace through the Automation API."""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pulumi import automation
from pulumi.automation import errors

from deskyard.declaration import declaration
from deskyard.declaration.declaration import PROJECT
from deskyard.declaration.promise import Promise
from deskyard.engine import checkpoint
from deskyard.engine.change import RESOURCES, Change, Watcher, desktop_of
from deskyard.engine.command import EngineCommand
from deskyard.engine.environment import environment
from deskyard.engine.leftovers import StateIds, state_ids
from deskyard.engine.silent_stack import SilentStack
from deskyard.errors import ConfigError, HostError, SiteError
from deskyard.host import toolchain
from deskyard.host.background import is_gone
from deskyard.host.command import Result, run
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import make_folder
from deskyard.site.files import stacks_folder

T = TypeVar("T")
ENGINE_SECONDS = 300.0
LOCK_HOLDER = re.compile(r"@(?P<host>\S+) \(pid (?P<pid>\d+)\)")
PROTECTED = re.compile(r"\"(urn:pulumi:[^\"]+)\" cannot be deleted\s+because it is protected")


class WorkspaceStack:
    """The stack of one workspace; `promise` is of a task that makes its machines."""

    def __init__(self, name: str, promise: Promise | None = None) -> None:
        self.name, self._promise = name, promise

    @functools.cached_property
    def _environment(self) -> dict[str, str]:
        """Worked out once: it reads the declaration, and on a cluster asks for the API's certificate."""
        return environment(declaration.site_of(self.name))

    def exists(self) -> bool:
        """True if the backend knows the stack; those of others, which may just be written, are not looked at."""
        with _clear_errors(self.name):
            self._mend()
            try:
                self._selected = SilentStack.select(self.name, self._workspace())
            except errors.StackNotFoundError:
                return False
        return True

    def preview(self) -> list[Change]:
        """Preview what `up` would do to the machines as they are now, unchanged ones included; touches nothing."""
        watcher = Watcher()
        stack = self._select()
        self._engine(watcher, stack, lambda: stack.preview(refresh=True, on_event=watcher))
        found = [*watcher.changes, *watcher.forgotten()]
        return [change for change in found if change.type.startswith(RESOURCES)]

    def changes(self) -> list[Change]:
        """List what `up` would change, drift included; touches nothing."""
        return [change for change in self.preview() if change.changes_something]

    def on_cluster(self) -> StateIds:
        """Read what the state holds on a cluster."""
        return state_ids(self.resources())

    def up(self) -> None:
        """Bring everything to what is declared."""
        watcher = Watcher(report=say)
        stack = self._select()
        state = self._export(stack)
        if _forget_pending(state):
            self._import(stack, state)
        self._engine(watcher, stack, lambda: stack.up(refresh=True, on_event=watcher))

    def destroy(self) -> None:
        """Remove everything, disks included, and forget the stack."""
        watcher = Watcher(report=say)
        stack = self._select()
        state = self._export(stack)
        if _forget_pending(state) | _unprotect(state):
            self._import(stack, state)
        self._engine(watcher, stack, lambda: stack.destroy(refresh=True, on_event=watcher))
        stack.workspace.remove_stack(self.name, preserve_config=True)
        del self._selected

    def unprotect(self, desktop: str | None = None) -> None:
        """Lift the protection of one desktop's data, or of all."""
        stack = self._select()
        state = self._export(stack)
        if _unprotect(state, desktop):
            self._import(stack, state)

    def desktops_with_disks(self) -> set[str]:
        """Desktops whose data Pulumi remembers."""
        return {kept.desktop for kept in self._kept() if kept.is_disk and kept.desktop is not None}

    def desktops_with_machines(self) -> set[str]:
        """Desktops whose machine Pulumi remembers: a run that broke off may have left a disk without one."""
        return {kept.desktop for kept in self._kept() if kept.is_machine and kept.desktop is not None}

    def resources(self) -> list[dict[str, Any]]:
        """The resources as Pulumi remembers them."""
        deployment = self._export(self._select()).deployment or {}
        return [resource for resource in deployment.get("resources", []) if resource.get("custom")]

    def check_passphrase(self) -> None:
        """Raise `ConfigError` if the passphrase does not open the stack."""
        self._export(self._select())

    def engine(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run one command of the engine on this stack: for secrets, which the Automation API puts on command lines."""
        argv = [_command().command, "--non-interactive", *arguments, "--stack", self.name]
        env = {**self._environment, "PULUMI_HOME": str(_home())}
        return run(argv, timeout=ENGINE_SECONDS, stdin=stdin, env=env, cwd=stacks_folder(), check=False)

    def shell(self) -> dict[str, str]:
        """The variables with which the engine's own program works on this stack as the tasks do.

        The stack is made if it is not there yet, so that its secrets have the passphrase that the tasks know.
        """
        self._select()
        command = Path(_command().command)
        path = self._environment["PATH"].split(os.pathsep)
        return {
            **self._environment,
            "PATH": os.pathsep.join(dict.fromkeys([str(command.parent), *path])),
            "PULUMI_HOME": str(_home()),
            "PULUMI_STACK": self.name,
        }

    def _kept(self) -> Iterator[Change]:
        for resource in self.resources():
            yield Change("same", resource["type"], resource["urn"].rpartition("::")[2], resource["urn"])

    def _select(self) -> automation.Stack:
        with _clear_errors(self.name):
            self._mend()
            return self._selected

    def _mend(self) -> None:
        """A state whose writing was cut off can neither be read nor looked for."""
        checkpoint.mend({**os.environ, **self._environment}["PULUMI_BACKEND_URL"], self.name)

    @functools.cached_property
    def _selected(self) -> automation.Stack:
        """Once for all that is done with it: to look whether it is there starts the engine."""
        workspace = self._workspace()
        try:
            return SilentStack.select(self.name, workspace)
        except errors.StackNotFoundError:
            return SilentStack.create(self.name, workspace)

    def _export(self, stack: automation.Stack) -> automation.Deployment:
        """The state as Pulumi has it; a wrong passphrase is found here too, before anything is touched."""
        with _clear_errors(self.name):
            return stack.export_stack()

    def _workspace(self) -> automation.LocalWorkspace:
        # The program is imported late: it needs components, which need Pulumi's runtime.
        from stacks.program import workspace_program

        folder = stacks_folder()
        options: dict[str, Any] = {}
        # A folder of stack files alone gets its project file here.
        with _clear_errors(self.name), alone("project-file"):
            if not (folder / "Pulumi.yaml").exists():
                options["project_settings"] = automation.ProjectSettings(name=PROJECT, runtime="python")
            return automation.LocalWorkspace(
                work_dir=str(folder),
                program=functools.partial(workspace_program, self._promise),
                pulumi_home=str(_home()),
                env_vars=self._environment,
                secrets_provider="passphrase",
                pulumi_command=_command(),
                **options,
            )

    def _import(self, stack: automation.Stack, state: automation.Deployment) -> None:
        with _clear_errors(self.name):
            _past_stale_lock(stack, lambda: stack.import_stack(state))

    def _engine(self, watcher: Watcher, stack: automation.Stack, work: Callable[[], T]) -> T:
        """Run the engine; goes on after a crash, and turns its errors into one."""
        with _clear_errors(self.name, watcher):
            return _past_stale_lock(stack, work)


def _home() -> Path:
    home = places().pulumi / "home"
    make_folder(home)
    toolchain.offer_plugins(home)
    return home


@functools.cache
def _command() -> EngineCommand:
    found = toolchain.find("pulumi")
    if found is None:
        raise HostError("tool", "pulumi", "is not on this machine", "run ./inv toolchain.get --tool pulumi")
    return EngineCommand(found.path, found.version)


def _forget_pending(state: automation.Deployment) -> bool:
    """Take out the steps that a killed run had begun; whether there were any.

    Each is safe to begin again, since creation adopts what is half made.
    """
    deployment = state.deployment or {}
    pending = deployment.get("pending_operations")
    if not pending:
        return False
    state.deployment = {**deployment, "pending_operations": []}
    say(f"    going on after {len(pending)} unfinished step(s)")
    return True


def _unprotect(state: automation.Deployment, desktop: str | None = None) -> bool:
    """Lift the protection of one desktop's data, or of all; whether there was any."""
    resources = (state.deployment or {}).get("resources", [])
    guarded = [
        resource for resource in resources if resource.get("protect") and desktop in (None, desktop_of(resource["urn"]))
    ]
    for resource in guarded:
        resource["protect"] = False
    return bool(guarded)


def _past_stale_lock(stack: automation.Stack, work: Callable[[], T]) -> T:
    """Do the work; a lock that a killed run left is lifted, one that a living run holds is not."""
    try:
        return work()
    except errors.ConcurrentUpdateError as error:
        if not _stale(str(error)):
            raise
        say("    the lock of a run that has died is lifted")
        stack.cancel()
        return work()


def _stale(message: str) -> bool:
    """True if all processes that hold the lock ran on this machine and are gone."""
    holders = LOCK_HOLDER.findall(message)
    return bool(holders) and all(is_gone(host, int(pid)) for host, pid in holders)


@contextlib.contextmanager
def _clear_errors(name: str, watcher: Watcher | None = None) -> Iterator[None]:
    try:
        yield
    except errors.ConcurrentUpdateError as error:
        reason = "another run works on it"
        raise SiteError("workspace", name, reason, "wait for it to end, then run it again") from error
    except errors.CommandError as error:
        text = str(error)
        if "incorrect passphrase" in text or "passphrase must be set" in text:
            reason = "the passphrase does not open this workspace's state"
            remedy = "set PULUMI_CONFIG_PASSPHRASE(_FILE) to the one it was created with"
            raise ConfigError("PULUMI_CONFIG_PASSPHRASE", None, reason, remedy) from error
        protected = PROTECTED.findall(text)
        if protected:
            raise _data_would_go(name, protected) from error
        failures = [failure for failure in (watcher.failures if watcher else []) if failure]
        reason = "\n".join(dict.fromkeys(failures)) or text[-2000:]
        raise SiteError("workspace", name, reason, "mend the cause, then run the same command again") from error


def _data_would_go(name: str, protected: list[str]) -> ConfigError:
    """Pulumi's own protection spoke: say it in our words."""
    desktops = sorted({desktop_of(urn) or urn for urn in protected})
    reason = f"this run would delete the disk of: {', '.join(desktops)}"
    remedy = f"declare it again, or name it: ./inv workspace.up {name} --remove {desktops[0]}"
    return ConfigError("desktops", None, reason, remedy)
