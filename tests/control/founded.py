"""Makes and destroys workspaces as a worker's child does, with machines that are files below the folder of LAB.

Declarations and their checks, the order of what is done, and what is gone on with are those of the product. Each step
is a line of the file `effects`; one that has a gate of its name waits there until somebody writes into it.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from deskyard.control.jobs import child
from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.engine import preflight
from deskyard.engine.backend import Disposables
from deskyard.engine.on_libvirt import LibvirtBackend
from deskyard.errors import SiteError
from deskyard.life import power, removal, snapshot
from deskyard.life.backup import backup, final
from deskyard.plan import names
from deskyard.plan.power import NoRoom, Power
from deskyard.workspace import founding, workspace

# Something else on this machine has it.
HOST_NETWORK = IPv4Network("10.80.1.0/24")


class Machines:
    """A file for each machine, in a folder for each workspace; those of the engine's state are the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def there(self, name: str) -> set[str]:
        """The desktops of a workspace that have a machine."""
        return {path.name for path in (self.folder / "machines" / name).glob("*")}

    def make(self, name: str, desktops: Collection[str]) -> None:
        """Make those of desktops."""
        (self.folder / "machines" / name).mkdir(parents=True, exist_ok=True)
        for desktop in desktops:
            (self.folder / "machines" / name / desktop).touch()

    def remove(self, name: str, desktop: str) -> None:
        """Remove one, if it is there."""
        (self.folder / "machines" / name / desktop).unlink(missing_ok=True)

    def disposables(self) -> Disposables | None:
        """The machines at seats: there are no seats."""
        return None

    def step(self, what: str, about: str) -> None:
        """Note a step, and wait at its gate."""
        with (self.folder / "effects").open("a") as file:
            file.write(json.dumps({"event": what, "desktop": about, "pid": os.getpid()}) + "\n")
        print(f"{what} {about}", file=sys.stderr, flush=True)
        if (gate := self.folder / "gates" / f"{what}-{about}").exists():
            gate.open().read()

    def up(self, name: str, **_: Any) -> dict[str, Any]:
        """As `workspace.up`; with `-room` in its name there is none, with `-fails` half of it is made."""
        declared = [desktop.name for desktop in declaration.read(name).workspace.persistent()]
        self.step("up", name)
        if "-room" in name and not (self.folder / "room").exists():
            raise NoRoom("memory", None, "100 MiB are available", "stop others")
        if name.endswith("-fails") and not (self.folder / "mended").exists():
            raise SiteError("machine", name, "did not start", "look at it")
        self.make(name, declared)
        self.step("is up", name)
        return {"ready": True, "url": f"https://{name}.localhost:8443"}

    def keep(self, name: str, desktops: Sequence[str], without: str) -> dict[str, str]:
        """As `final.keep`; one whose name begins with `mute` cannot be verified."""
        for desktop in desktops:
            if desktop not in self.there(name):
                raise SiteError("last backup", f"{name}/{desktop}", "has no machine", without)
            self.step("backed up", f"{name}.{desktop}")
            if desktop.startswith("mute"):
                raise SiteError("last backup", f"{name}/{desktop}", "did not boot", f"or without: {without}")
        return {desktop: f"{desktop}-0001" for desktop in desktops}


class Stack:
    """What the engine remembers of a workspace, which is what is there."""

    def __init__(self, machines: Machines, name: str) -> None:
        self.machines, self.name, self.on_cluster = machines, name, None

    def exists(self) -> bool:
        return (self.machines.folder / "machines" / self.name).exists()

    def desktops_with_machines(self) -> set[str]:
        return self.machines.there(self.name)

    def desktops_with_disks(self) -> set[str]:
        return self.machines.there(self.name) | {
            path.name for path in (self.machines.folder / "disks" / self.name).glob("*")
        }

    def check_passphrase(self) -> None:
        pass

    def destroy(self) -> None:
        for desktop in sorted(self.desktops_with_machines()):
            self.machines.step("destroyed", f"{self.name}.{desktop}")
            self.machines.remove(self.name, desktop)
            if desktop.startswith("stuck") and not (self.machines.folder / "mended").exists():
                raise SiteError("machine", desktop, "is held by a program", "end that")
        (self.machines.folder / "machines" / self.name).rmdir()


class Found:
    """The machines of a workspace; as real ones, they tell states of those alone that are declared."""

    def __init__(self, machines: Machines, name: str) -> None:
        self.machines, self.name = machines, name

    def states(self) -> dict[str, Power]:
        planned = {desktop.machine.domain for desktop in declaration.read(self.name).plan.desktops}
        return {domain: power for domain, power in _desired(self.machines, self.name).items() if domain in planned}

    def is_there(self, desktop: str) -> bool:
        return desktop in self.machines.there(self.name)


def check(_: LibvirtBackend, declared: Declared) -> None:
    """Of what this machine's backend checks, what needs neither images nor machines."""
    preflight._other_workspaces(declared)
    preflight._quotas(declared)
    preflight._clashes(declared)


def stand_in(folder: Path, put: Callable[[Any, str, Any], object]) -> Machines:
    """Put the doubles in their places, for whoever has the environment of the folder."""
    machines = Machines(folder)
    (folder / "stacks").mkdir(exist_ok=True)
    put(LibvirtBackend, "check", check)
    put(LibvirtBackend, "networks", lambda _: [HOST_NETWORK])
    put(founding, "machines_of", lambda plan: SimpleNamespace(desired=lambda: _desired(machines, plan.name)))
    put(workspace, "up", machines.up)
    seamed = {
        "remnants": lambda *_, **__: [],
        "prepare_destroy": lambda *_: None,
        "disposables": lambda _: machines.disposables(),
    }
    put(workspace, "backend_of", lambda _: SimpleNamespace(**seamed, pauses=lambda: iter(())))
    put(workspace, "SshLink", lambda *_: SimpleNamespace(close=lambda: None))
    for module in (workspace, final):
        put(module, "WorkspaceStack", lambda name: Stack(machines, name))
    put(removal, "_in_use", lambda name: sorted(path.name for path in (folder / "in-use" / name).glob("*")))
    put(final, "notice", lambda name, desktops, _, *, backup: [f"{name}: {' '.join(desktops)}"] if backup else [])
    put(final, "keep", machines.keep)
    put(snapshot, "listing", lambda target: {"desktop": target, "snapshots": []})
    put(backup, "survivors", lambda name: [f"{name}: none"])
    put(power, "look_up", lambda name: (None, Found(machines, name)))
    return machines


def _desired(machines: Machines, name: str) -> dict[str, Power]:
    return {names.domain(name, desktop): Power.RUNNING for desktop in machines.there(name)}


def environment(folder: Path) -> dict[str, str]:
    """Where stack files are, and what the host keeps."""
    stacks, home = str(folder / "stacks"), str(folder / "home")
    return {"DESKYARD_STACKS": stacks, "DESKYARD_HOME": home, "DESKYARD_ACCELERATOR": "tcg"}


if __name__ == "__main__":
    os.environ.update(environment(Path(os.environ["LAB"])))
    stand_in(Path(os.environ["LAB"]), setattr)
    sys.exit(child.main())
