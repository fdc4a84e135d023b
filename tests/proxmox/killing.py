"""Kills a client at a call of the API, and tells at which calls its end leaves something else behind.

What is left of a client that is killed whole is the cluster and the files on its disk. So a moment is the number of
writing calls that the cluster has worked off, and what Pulumi's state says then: two calls of the same moment are the
same end. A point is the first call of each moment, or that a writing call is worked off and nobody hears it.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tests.proxmox.bench import Bench
from tests.proxmox.client_process import ClientProcess
from tests.proxmox.guarded import Watch
from tests.support.pve.calls import Call

TREE = Path(__file__).parents[2]
# What a passed point rests on.
ROOMS = ("model", "plan", "host", "site", "declaration", "engine", "workspace")
SOURCES = (*(f"deskyard/{room}" for room in ROOMS), "stacks", "tests/support/pve")


@dataclass(frozen=True, order=True)
class Point:
    """The how-manieth call of a kind, before it or once it is worked off."""

    call: str
    number: int
    done: bool

    @property
    def writes(self) -> bool:
        """Whether the call writes: then every run of the command makes it."""
        return not self.call.startswith("GET ")

    def __str__(self) -> str:
        return f"{self.call} ({self.number}.), {'done and not answered' if self.done else 'not done'}"


Strikes = Callable[[Point, Call], bool]


class Killer:
    """Called with each call: tells points apart, and kills a client at one of them."""

    def __init__(self, bench: Bench, watch: Watch, strikes: Strikes) -> None:
        self._fake, self._watch, self._strikes = bench.rack.peer.fake, watch, strikes
        self._seen: Counter[str] = Counter()
        self.client: ClientProcess | None = None
        self.struck: Point | None = None
        self._fake.faults.on_call = self

    def __call__(self, call: Call) -> None:
        self._watch(call)
        name = f"{call.method} {_place(call.path)}"
        self._seen[name] += 1
        for done in (False, True) if call.writes else (False,):
            point = Point(name, self._seen[name], done)
            if self.struck is None and self._strikes(point, call):
                self.struck = point
                assert self.client is not None
                # First: whoever waits for the end of the client goes on as soon as it is killed.
                if not done:
                    self._fake.faults.cuts[call.number] = "before"
                self.client.kill()


class Listed:
    """All points of a run that nobody kills; `same` are the calls that are left out because nothing has changed."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._writes = bench, 0
        self._before: tuple[int, str] | None = None
        self.points: list[Point] = []
        self.same: list[Point] = []

    def __call__(self, point: Point, call: Call) -> bool:
        now = (self._writes, self._bench.remembered())
        if point.done:
            self._writes += 1
            self.points.append(point)
            # The next call is of the same moment as this one's lost answer, unless the client has noted something.
            self._before = (self._writes, now[1])
            return False
        (self.same if now == self._before else self.points).append(point)
        self._before = now
        return False


class Record:
    """Points that passed, a JSON document per line, so that a run that was ended goes on where it stopped.

    A pass stands as long as the product and the peer are what they were.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._digest = path, _digest()

    def passed(self, operation: str) -> set[Point]:
        """The points of an operation that need not be run again."""
        if self._path is None or not self._path.exists():
            return set()
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        found = [line for line in lines if (line["operation"], line["digest"]) == (operation, self._digest)]
        return {Point(**line["point"]) for line in found}

    def add(self, operation: str, point: Point) -> None:
        """Write one down at once."""
        if self._path is not None:
            with self._path.open("a") as out:
                line = {"operation": operation, "point": asdict(point), "digest": self._digest}
                out.write(json.dumps(line) + "\n")


def _digest() -> str:
    found = sha256()
    for path in sorted(path for folder in SOURCES for path in (TREE / folder).rglob("*.py")):
        found.update(f"{path.relative_to(TREE)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _place(path: str) -> str:
    """A path with tasks named by what they do: their ids hold the time."""
    parts = (":".join(p.split(":")[5:7]) if p.startswith("UPID:") else p for p in path.split("/"))
    return "/".join(parts)
