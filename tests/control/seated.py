"""Does operations on desktops for a task as a worker's child does, at the seats of workspace `lab` of the tests.

Claim, ledger and end are those of the product; only machines are files. One at seat `NAME` is made when somebody writes
into the gate `NAME`, if there is one.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from deskyard.access import access
from deskyard.control.jobs import child
from deskyard.declaration import declaration
from deskyard.life.pool import filling, making, pool
from deskyard.plan.power import Power
from deskyard.workspace import readiness, seating
from tests.unit.workspace.disposables import Disposables, declared

SEATS = ("s1", "s2", "s3")


class Machines(Disposables):
    """The same; what is given is said, which is a line of the operation's log."""

    def mark(self, seat: str, words: Mapping[str, str]) -> None:
        super().mark(seat, words)
        print(f"{seat} is {words['state']}", file=sys.stderr, flush=True)


def stand_in(folder: Path, put: Callable[[Any, str, Any], object]) -> Any:
    """Put the doubles in their places; the declaration of three seats, of which one is to wait."""
    found = declared(len(SEATS), 1)
    os.environ["DESKYARD_HOME"] = str(folder / "home")
    machines = Machines(folder / "machines")
    backend = SimpleNamespace(
        answers=lambda: True, disposables=lambda _: machines, prepare_starts=lambda *_, make: None
    )
    put(declaration, "read", lambda _: found)
    for module in (making, pool, seating):
        put(module, "backend_of", lambda _: backend)
    put(access, "revoke", lambda *_, **__: None)
    running = {found.plan.gateway.machine.domain: Power.RUNNING}
    put(filling, "machines_of", lambda _: SimpleNamespace(desired=lambda: running))
    put(readiness, "wait", lambda _, desktops: _made(folder, desktops[0].name))
    return found


def _made(folder: Path, seat: str) -> None:
    print(f"{os.getpid()} makes {seat}", file=sys.stderr, flush=True)
    if (gate := folder / "gates" / seat).exists():
        # Until somebody writes into it: nothing is asked again and again.
        gate.open().read()


if __name__ == "__main__":
    stand_in(Path(os.environ["LAB"]), setattr)
    sys.exit(child.main())
