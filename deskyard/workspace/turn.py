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
def of(plan: WorkspacePlan, machine: str) -> Iterator[None]:
    """Keep other tasks from one machine, and from making or removing any of its workspace."""
    with alone(_lock(plan.site, plan.name), shared=True, waiting=f"{plan.name} is being changed: waiting for its end"):
        waiting = f"another task moves {plan.name}/{machine}: waiting for its end"
        with alone(f"power-{plan.site}-{plan.name}.{machine}", waiting=waiting):
            yield


def _lock(site: str, workspace: str) -> str:
    return f"machines-{site}-{workspace}"
