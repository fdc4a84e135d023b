"""Drives Pulumi's engine for one workspace through the Automation API."""

import contextlib
import functools
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pulumi import automation
from pulumi.automation import errors, events

from deskyard import toolchain
from deskyard.errors import ConfigError, HostError, SiteError
from deskyard.run.background import start_time
from deskyard.run.declaration import PROJECT, stacks_folder
from deskyard.run.lock import alone
from deskyard.run.management_key import write_secret
from deskyard.run.places import places, tree
from deskyard.run.progress import say
from deskyard.run.pulumi_command import EngineCommand

T = TypeVar("T")
PASSPHRASE_VARIABLES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
RESOURCE_PREFIX = "deskyard:libvirt:"
DISK_TYPE = f"{RESOURCE_PREFIX}Volume"
LOCK_HOLDER = re.compile(r"@(?P<host>\S+) \(pid (?P<pid>\d+)\)")
# What the provider's server adds to the text of an error.
TRACE = re.compile(r":\n\s+File \".*", re.DOTALL)
PREAMBLE = re.compile(r"^.*?(?:Unexpected <class '[\w.]+'>: |rpc error: code = \w+ desc = )", re.DOTALL)
PROTECTED = re.compile(r"::([a-z0-9-]+)-disk\" cannot be deleted\s+because it is protected")
VERBS = {"create": "creating", "update": "updating", "delete": "removing", "replace": "replacing"}


@dataclass(frozen=True)
class Change:
    """One step that Pulumi plans or takes."""

    operation: str
    type: str
    name: str
    urn: str

    @property
    def changes_something(self) -> bool:
        """False for what stays as it is."""
        return self.operation != "same"

    @property
    def is_disk(self) -> bool:
        """True if data is in it."""
        return self.type == DISK_TYPE and "-desktop-" in self.name

    @property
    def loses_data(self) -> bool:
        """True if a desktop's disk goes away."""
        return self.is_disk and self.operation in {"delete", "replace", "delete-replaced", "create-replacement"}


@dataclass
class _Watcher:
    """Collects the steps and the errors of one run of the engine."""

    quiet: bool
    changes: list[Change] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __call__(self, event: events.EngineEvent) -> None:
        diagnostic = event.diagnostic_event
        if diagnostic is not None and diagnostic.severity == "error":
            self.failures.append(_clean(diagnostic.message))
        before = event.resource_pre_event
        if before is not None and before.metadata.op not in ("read", "refresh"):
            self._step(before.metadata)

    def _step(self, metadata: events.StepEventMetadata) -> None:
        name = metadata.urn.rpartition("::")[2]
        change = Change(str(getattr(metadata.op, "value", metadata.op)), metadata.type, name, metadata.urn)
        self.changes.append(change)
        if not self.quiet and change.type.startswith(RESOURCE_PREFIX) and change.operation in VERBS:
            say(f"    {VERBS[change.operation]} {change.name}")


class WorkspaceStack:
    """The stack of one workspace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def exists(self) -> bool:
        """True if the backend knows the stack."""
        return any(stack.name == self.name for stack in self._workspace().list_stacks())

    def preview(self) -> list[Change]:
        """What `up` would do to the machines as they are now, unchanged ones included; touches nothing."""
        watcher = _Watcher(quiet=True)
        stack = self._select()
        self._engine(watcher, stack, lambda: stack.preview(refresh=True, on_event=watcher))
        return [change for change in watcher.changes if change.type.startswith(RESOURCE_PREFIX)]

    def up(self) -> dict[str, Any]:
        """Bring everything to what is declared; returns the stack's outputs."""
        watcher = _Watcher(quiet=False)
        stack = self._select()
        self._forget_pending(stack)
        result = self._engine(watcher, stack, lambda: stack.up(refresh=True, on_event=watcher))
        return {key: output.value for key, output in result.outputs.items()}

    def destroy(self) -> None:
        """Remove everything, disks included, and forget the stack."""
        watcher = _Watcher(quiet=False)
        stack = self._select()
        self._forget_pending(stack)
        self.unprotect()
        self._engine(watcher, stack, lambda: stack.destroy(refresh=True, on_event=watcher))
        stack.workspace.remove_stack(self.name, preserve_config=True)

    def unprotect(self, desktop: str | None = None) -> None:
        """Lift the protection of one desktop's disk, or of all."""
        stack = self._select()
        state = stack.export_stack()
        for resource in (state.deployment or {}).get("resources", []):
            wanted = desktop is None or resource["urn"].endswith(f"::{self.name}-desktop-{desktop}-disk")
            if wanted and resource.get("protect"):
                resource["protect"] = False
        with _clear_errors(self.name):
            _past_stale_lock(stack, lambda: stack.import_stack(state))

    def desktops_with_disks(self) -> set[str]:
        """Desktops whose disks Pulumi remembers."""
        prefix = f"{self.name}-desktop-"
        names = (resource["urn"].rpartition("::")[2] for resource in self.resources())
        return {
            name.removeprefix(prefix).removesuffix("-disk")
            for name in names
            if name.startswith(prefix) and name.endswith("-disk")
        }

    def outputs(self) -> dict[str, Any]:
        """What the last `up` exported."""
        return {key: output.value for key, output in self._select().outputs().items()}

    def resources(self) -> list[dict[str, Any]]:
        """The resources as Pulumi remembers them."""
        deployment = self._select().export_stack().deployment or {}
        return [resource for resource in deployment.get("resources", []) if resource.get("custom")]

    def check_passphrase(self) -> None:
        """Raise `ConfigError` if the passphrase does not open the stack."""
        self._select()

    def _select(self) -> automation.Stack:
        with _clear_errors(self.name):
            stack = automation.Stack.create_or_select(self.name, self._workspace())
            # Opens the encrypted state: a wrong passphrase is found here, before anything is touched.
            stack.export_stack()
        return stack

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
                program=workspace_program,
                pulumi_home=str(_home()),
                env_vars=environment(),
                secrets_provider="passphrase",
                pulumi_command=_command(),
                **options,
            )

    def _forget_pending(self, stack: automation.Stack) -> None:
        """Steps that a killed run had begun: each is safe to begin again, since creation adopts what is half made."""
        state = stack.export_stack()
        deployment = state.deployment or {}
        pending = deployment.get("pending_operations")
        if pending:
            rest = automation.Deployment(state.version, {**deployment, "pending_operations": []})
            with _clear_errors(self.name):
                _past_stale_lock(stack, lambda: stack.import_stack(rest))
            say(f"    going on after {len(pending)} unfinished step(s)")

    def _engine(self, watcher: _Watcher, stack: automation.Stack, work: Callable[[], T]) -> T:
        """Run the engine; goes on after a crash, and turns its errors into one."""
        with _clear_errors(self.name, watcher):
            return _past_stale_lock(stack, work)


def environment() -> dict[str, str]:
    """What Pulumi needs in its environment: backend, passphrase, the provider on PATH; no questions, no updates."""
    set_up = {
        "PATH": f"{tree() / 'stacks' / 'libvirt'}{os.pathsep}{os.environ.get('PATH', '')}",
        # The provider runs with the Python that runs us, wherever the stacks folder lies.
        "DESKYARD_PYTHON": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    if not os.environ.get("PULUMI_BACKEND_URL"):
        backend = places().pulumi / "backend"
        backend.mkdir(parents=True, exist_ok=True, mode=0o700)
        set_up["PULUMI_BACKEND_URL"] = f"file://{backend}"
    if not any(variable in os.environ for variable in PASSPHRASE_VARIABLES):
        set_up["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase_file())
    return set_up


def _passphrase_file() -> Path:
    path = places().state / "passphrase"
    with alone("passphrase"):
        if not path.exists():
            write_secret(path, secrets.token_urlsafe(32).encode())
    return path


def _home() -> Path:
    home = places().pulumi / "home"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home


@functools.cache
def _command() -> EngineCommand:
    found = toolchain.find("pulumi")
    if found is None:
        raise HostError("tool", "pulumi", "is not on this machine", "run ./inv toolchain.get --tool pulumi")
    return EngineCommand(found.path, found.version)


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
    here = os.uname().nodename
    return bool(holders) and all(host == here and start_time(int(pid)) is None for host, pid in holders)


@contextlib.contextmanager
def _clear_errors(name: str, watcher: _Watcher | None = None) -> Iterator[None]:
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


def _data_would_go(name: str, disks: list[str]) -> ConfigError:
    """Pulumi's own protection spoke: say it in our words."""
    desktops = sorted({disk.removeprefix(f"{name}-desktop-") for disk in disks})
    reason = f"this run would delete the disk of: {', '.join(desktops)}"
    remedy = f"declare it again, or name it: ./inv workspace.up {name} --remove {desktops[0]}"
    return ConfigError("desktops", None, reason, remedy)


def _clean(message: str) -> str:
    message = re.sub(r"<\{%\w+%\}>", "", message)
    if "one or more errors occurred" in message or message.strip() in ("update failed", "preview failed"):
        return ""
    return TRACE.sub("", PREAMBLE.sub("", message)).strip()
