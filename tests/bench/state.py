"""What keeping the state costs: workspaces on the API peer, made with each step written down and with the last alone.

The engine writes the whole state anew with each step, so the cost of n resources grows with n times n. All figures are
of one run with the real engine and the real plugin; the peer's machines hold no guests.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from deskyard.engine.stack import WorkspaceStack
from deskyard.workspace import workspace
from tests.proxmox.rack import Rack, changed, watched
from tests.support.postgres import database, programs
from tests.support.pve import Peer

DESKTOPS = (1, 5, 20)
# What the engine is told for the run to compare with: it then writes the state once, at the end.
LAST_ALONE = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
BLOCK = 512


@dataclass(frozen=True)
class Row:
    """One workspace made, looked at and removed; sizes in KiB, times in seconds."""

    backend: str
    desktops: int
    resources: int
    calls: int
    up: float
    preview: float
    destroy: float
    state_kib: float
    written_kib: float


def measure(backend: str, desktops: int, rack: Rack) -> Row:
    """Make a workspace, preview it unchanged, and remove it."""
    name = f"w{desktops}"
    stack = rack.declare(name, *(f"desk-{number}" for number in range(desktops)))
    written = _written()
    with watched(rack.peer) as calls:
        up = _seconds(lambda: workspace.up(name))
    written = _written() - written
    deployment = stack.resources()
    size = len(json.dumps(deployment)) / 1024
    preview = _seconds(lambda: _unchanged(stack))
    destroy = _seconds(lambda: workspace.destroy(name))
    return Row(backend, desktops, len(deployment), len(calls), up, preview, destroy, round(size, 1), round(written, 1))


def rows(sizes: Sequence[int]) -> Iterator[Row]:
    """Each backend at each size, on a cluster of its own."""
    # One folder for all: the engine's place is looked up once.
    with tempfile.TemporaryDirectory(prefix="deskyard-state.") as folder:
        for backend in ("files, the last alone", "files", *(["postgresql"] if programs() else [])):
            for desktops in sizes:
                with _rack(backend, Path(tempfile.mkdtemp(dir=folder))) as rack:
                    yield measure(backend, desktops, rack)


@contextmanager
def _rack(backend: str, folder: Path) -> Iterator[Rack]:
    server = database("state") if backend == "postgresql" else nullcontext("")
    set_up = LAST_ALONE if "alone" in backend else {}
    with server as url, pytest.MonkeyPatch.context() as environment:
        for variable, value in {**set_up, **({"PULUMI_BACKEND_URL": url} if url else {})}.items():
            environment.setenv(variable, value)
        with Peer(folder, nodes=2) as peer, peer.client() as root:
            yield Rack(peer, root, folder, environment)


def _unchanged(stack: WorkspaceStack) -> None:
    assert changed(stack.preview()) == []


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return round(time.monotonic() - started, 2)


def _written() -> float:
    """What programs that we began and that have ended wrote to files, in KiB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_oublock * BLOCK / 1024


def main(arguments: Sequence[str]) -> int:
    """Measure and print; never a verdict."""
    sizes = [int(text) for text in arguments if text.isdecimal()] or list(DESKTOPS)
    os.environ.pop("PULUMI_BACKEND_URL", None)
    found = list(rows(sizes))
    if "--json" in arguments:
        print(json.dumps([asdict(row) for row in found], indent=2))
        return 0
    print(f"{'state kept in':<24}{'desktops':>9}{'resources':>10}{'calls':>7}{'up':>9}{'x':>7}", end="")
    print(f"{'preview':>9}{'destroy':>9}{'state':>10}{'written':>12}")
    for row in found:
        least = next(least for least in found if least.desktops == row.desktops)
        print(f"{row.backend:<24}{row.desktops:>9}{row.resources:>10}{row.calls:>7}{row.up:>7.1f} s", end="")
        print(f"{row.up / least.up:>7.2f}{row.preview:>7.1f} s{row.destroy:>7.1f} s", end="")
        print(f"{row.state_kib:>6.0f} KiB{row.written_kib:>8.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
