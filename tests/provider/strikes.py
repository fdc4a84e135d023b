"""Kills who takes part in a task on a real hypervisor, at a step: the task itself, libvirt's daemon, or QEMU."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libvirt
import pytest

from deskyard.host.background import Background, start_time
from deskyard.host.deadline import Deadline
from deskyard.host.places import places
from deskyard.life import journal
from deskyard.life.backup.repository import Repository
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.workspace.ledger import Ledger
from tests.provider import witness
from tests.unit.life.machines import DEV1

# Where the calls in one hypervisor note what the next ones need.
FOLDER = Path("/var/lib/libvirt/faults")
PROCESSES = Path("/run/libvirt/qemu")
VICTIMS = ("task", "libvirtd", "qemu")
# What the hypervisor or the disk does in one piece.
CALLS: dict[Any, tuple[str, ...]] = {
    libvirt.virDomain: (
        "create",
        "resume",
        "suspend",
        "shutdown",
        "destroy",
        "managedSave",
        "managedSaveRemove",
        "snapshotCreateXML",
        "revertToSnapshot",
        "setMetadata",
        "setAutostart",
        "undefineFlags",
        "backupBegin",
        "abortJob",
    ),
    libvirt.virDomainSnapshot: ("delete",),
    libvirt.virConnect: ("createXML", "defineXML"),
    libvirt.virStoragePool: ("createXML", "refresh"),
    libvirt.virStorageVol: ("delete", "upload"),
    journal.Journal: ("write", "close"),
    Repository: ("_restic",),
    Ledger: ("note",),
}
FILES = ("hardlink_to", "replace", "unlink")


@dataclass(frozen=True)
class Strike:
    """Who is killed, at which step (counted from 1; 0: nobody), and how many seconds after it began."""

    victim: str = "task"
    step: int = 0
    after: float = 0.0
    # Whose QEMU is meant.
    domain: str = DEV1


NOBODY = Strike()


class Steps:
    """Counts the steps of a task, and strikes at one of them, or at the next at which the victim is there."""

    def __init__(self, strike: Strike) -> None:
        self.names, self.strike, self.struck = list[str](), strike, strike.step == 0

    def around(self, name: str, work: Callable[..., Any], counts: Callable[..., bool] = lambda *_: True) -> Any:
        """The same work as a step: the strike comes before it, amid it, or behind it."""

        def done(*given: Any, **named: Any) -> Any:
            if not counts(*given):
                return work(*given, **named)
            self.names.append(name)
            if self.struck or len(self.names) < self.strike.step or _process(self.strike) is None:
                return work(*given, **named)
            self.struck = True
            timer = threading.Timer(self.strike.after, strike, [self.strike])
            timer.start()
            if not self.strike.after:
                timer.join()
            try:
                return work(*given, **named)
            finally:
                timer.join()

        return done


def strike(wanted: Strike) -> None:
    """Kill one of those who take part; the last record that the guest had said by then is noted."""
    note("struck", witness.last(DEV1))
    pid = _process(wanted)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        assert Deadline(30).wait_for(lambda: start_time(pid) is None, witness.PAUSE)


def note(what: str, value: Any) -> None:
    """Keep something for a later call."""
    (FOLDER / f"{what}.json").write_text(json.dumps(value))


def noted(what: str) -> Any:
    """What an earlier call has kept."""
    return json.loads((FOLDER / f"{what}.json").read_text())


def _process(wanted: Strike) -> int | None:
    match wanted.victim:
        case "task":
            return os.getpid()
        case "libvirtd":
            return Background("libvirtd", places().state / "hypervisor").pid()
    try:
        return int((PROCESSES / f"{wanted.domain}.pid").read_text())
    except FileNotFoundError:
        return None


def watch(patch: pytest.MonkeyPatch, steps: Steps) -> None:
    """Let what the hypervisor or the disk does in one piece be a step."""
    for kind, names in CALLS.items():
        for name in names:
            patch.setattr(kind, name, steps.around(f"{kind.__name__}.{name}", getattr(kind, name)))
    for name in FILES:
        patch.setattr(Path, name, steps.around(f"file {name}", getattr(Path, name), _is_of_a_desktop))
    patch.setattr(os, "link", steps.around("file link", os.link, _is_of_a_desktop))


def _is_of_a_desktop(path: Any, *_: Any) -> bool:
    return str(path).startswith(POOL_PATH)
