"""Who may move the machines of a workspace: one task for each desktop, or one for all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from deskyard.host.lock import alone
from deskyard.plan.workspace import WorkspacePlan


@contextmanager
def whole(site: str, workspace: str) -> Iterator[None]:
    """Keep every other task from the machines of a workspace: they are made, changed or removed."""
    with alone(_lock(site, workspace), waiting=f"another task moves machines of {workspace}: waiting for its end"):
        yield


@contextmanager
def unchanged(site: str, workspace: str) -> Iterator[None]:
    """Keep other tasks from making or removing machines of a workspace; a `HostError` if one does just now."""
    with alone(_lock(site, workspace), shared=True, at_once=True):
        yield


@contextmanager
def of(plan: WorkspacePlan, machine: str, *, at_once: bool = False) -> Iterator[None]:
    """Keep other tasks from one machine, and from making or removing any of its workspace.

    With `at_once` it is a `HostError` that another task is at work.
    """
    changed = f"{plan.name} is being changed: waiting for its end"
    moved = f"another task moves {plan.name}/{machine}: waiting for its end"
    with (
        alone(_lock(plan.site, plan.name), shared=True, at_once=at_once, waiting=changed),
        alone(f"power-{plan.site}-{plan.name}.{machine}", at_once=at_once, waiting=moved),
    ):
        yield


@contextmanager
def of_trial(machine_domain: str) -> Iterator[None]:
    """Try a backup of one machine out; a `HostError` if another task does."""
    with alone(f"verify-{machine_domain}", at_once=True):
        yield


@contextmanager
def of_copy(machine_domain: str) -> Iterator[None]:
    """Make one machine from another one's backup; a `HostError` if another task does."""
    with alone(f"copy-{machine_domain}", at_once=True):
        yield


@contextmanager
def of_reading(machine_domain: str) -> Iterator[None]:
    """Read the files of a backup of one machine; a `HostError` if another task does."""
    with alone(f"files-{machine_domain}", at_once=True):
        yield


def _lock(site: str, workspace: str) -> str:
    return f"machines-{site}-{workspace}"
