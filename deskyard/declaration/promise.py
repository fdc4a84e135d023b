"""Promises: the machines that a task is about to make on a cluster, told to the others of this machine that plan.

Between a Plan and its machines lie minutes, in which the cluster shows none of them: two tasks that plan on the same
free memory of a node would both get it.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import make_folder, opened
from deskyard.plan.proxmox.promised import Promised, promised, with_promised
from deskyard.plan.proxmox.view import ClusterView, Owner, SeenMachine
from deskyard.plan.proxmox.workspace import ClusterPlan
from deskyard.plan.workspace import WorkspacePlan

Planned = tuple[WorkspacePlan, ClusterPlan]


class Heard:
    """The promises of other tasks, as they are heard by one that makes none, such as that of a machine at a seat."""

    def __init__(self, site: str) -> None:
        self._site = site

    def plan(self, look: Callable[[], ClusterView], plan: Callable[[ClusterView], Planned]) -> Planned:
        """Plan on what the cluster shows now and others are about to make."""
        with _alone(self._site):
            return plan(with_promised(look(), _of_all(self._site)))


class Promise:
    """The places of a workspace's machines, which are nobody else's until the task ends that makes them."""

    def __init__(self, site: str, path: Path, file: IO[str]) -> None:
        self._site, self._path, self._file = site, path, file

    def plan(self, look: Callable[[], ClusterView], plan: Callable[[ClusterView], Planned]) -> Planned:
        """Plan on what the cluster shows now and others are about to make; from then on others count on it."""
        with _alone(self._site):
            planned = plan(with_promised(look(), _of_all(self._site, but=self._path)))
            machines = [asdict(promised(vm)) for vm in planned[1].machines()]
            self._file.seek(0)
            self._file.truncate()
            json.dump(machines, self._file)
            self._file.flush()
        return planned


@contextmanager
def given(site: str, workspace: str) -> Iterator[Promise]:
    """Let what a task plans from now on be promised until its end, however it ends; it has the workspace's turn."""
    folder = _folder(site)
    make_folder(folder)
    path = folder / workspace
    # Nobody reads it before it is locked: it would be taken for what a killed task left.
    with _alone(site):
        file = os.fdopen(opened(path, os.O_WRONLY | os.O_TRUNC), "w")
        fcntl.flock(file, fcntl.LOCK_EX)
    with file:
        try:
            yield Promise(site, path, file)
        finally:
            path.unlink(missing_ok=True)


def _folder(site: str) -> Path:
    return places().state / "promised" / site


def _alone(site: str) -> AbstractContextManager[None]:
    return alone(f"places-{site}", waiting=f"another task looks for places on {site}: waiting")


def _of_all(site: str, but: Path | None = None) -> list[Promised]:
    return [each for path in _folder(site).glob("*") if path != but for each in _read(path)]


def _read(path: Path) -> list[Promised]:
    """The promises of another task; none, and no file any more, of one that was killed."""
    try:
        file = path.open()
    except FileNotFoundError:
        return []
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            # It may have planned nothing yet.
            return [_promised(values) for values in json.loads(file.read() or "[]")]
        path.unlink(missing_ok=True)
    return []


def _promised(values: dict[str, Any]) -> Promised:
    machine = values["machine"]
    seen = SeenMachine(**{**machine, "tags": tuple(machine["tags"])})
    return Promised(Owner(**values["owner"]), seen, values["storage"], values["disks_gib"])
