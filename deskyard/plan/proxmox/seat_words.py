"""The words of a machine at a seat of a cluster on itself: in its description, and for people in a tag. Pure.

Both are in the machine's one configuration, which Proxmox VE writes whole or not at all, and only if it is still what
the writer has read: a claim there has one winner. Who edits the description of a machine that somebody has does not
take it away: the tag says that it is somebody's, and then it stays until it is released.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deskyard.plan.names import SEAT_SUFFIX
from deskyard.plan.pool.seat import Claim, Seated, State
from deskyard.plan.proxmox.view import WORKSPACE_POOLS, Owner, SeenMachine, pool_of, tags_of

STATE_TAG, LINE = "deskyard-seat.", "deskyard-seat: "
GONE, UNKNOWN = "gone", "?"
# The end of a claim of which nobody can read the end any more.
NEVER = 4_102_444_800.0
SHOWN = frozenset({State.MAKING, State.WAITING, State.CLAIMED, GONE})


@dataclass(frozen=True)
class Words:
    """The machine's number and state, and who has it; `host` is where the task runs that makes or holds it.

    `token` tells a claimer whose call was not answered that it was its own that was done.
    """

    seat: str
    machine: str
    state: str
    since: float
    wiring: str = ""
    image: str = ""
    host: str = ""
    by: str = ""
    until: float = 0.0
    run: bool = False
    token: str = ""

    def seated(self) -> Seated:
        """As the seats of every backend are told of."""
        claim = Claim(self.by, self.until, self.run) if self.by else None
        state = State.MAKING if self.state == GONE else State(self.state)
        return Seated(self.seat, self.machine, state, self.wiring, self.image, self.since, claim, self.host)

    def mark(self) -> dict[str, str]:
        """As a machine keeps it on the other backend."""
        whose = {"by": self.by, "until": f"{self.until:.0f}"} if self.by else {}
        return {"machine": self.machine, "state": self.state, **whose}


def written(words: Words, tags: tuple[str, ...]) -> dict[str, str]:
    """The options of a machine that say so, with the other tags that it has."""
    others = {tag for tag in tags if not tag.startswith(STATE_TAG)}
    return {
        "description": f"{LINE}{json.dumps(asdict(words), sort_keys=True)}",
        "tags": ";".join(sorted({*others, f"{STATE_TAG}{words.state}"})),
    }


def read(config: Mapping[str, Any], seat: str) -> Words | None:
    """The words in a machine's configuration; None if it says nothing of itself."""
    for line in str(config.get("description") or "").splitlines():
        if line.startswith(LINE):
            try:
                found = Words(**json.loads(line.removeprefix(LINE)))
            except (ValueError, TypeError):
                break
            if found.state in SHOWN and found.seat == seat:
                return found
    if f"{STATE_TAG}{State.CLAIMED}" in tags_of(config):
        return Words(seat, UNKNOWN, State.CLAIMED, 0.0, by=UNKNOWN, until=NEVER)
    return None


def seat_owner(site: str, workspace: str, seat: str) -> Owner:
    """Whom the machine at a seat belongs to: no desktop that is kept has such a name."""
    return Owner(site, workspace, f"{seat}{SEAT_SUFFIX}")


def seat_at(machine: SeenMachine, site: str, workspace: str) -> str | None:
    """The seat of a workspace at which a machine is, by its tag; by its name while it has no tag of its own yet."""
    start = f"{pool_of(site, workspace)}."
    tags = [tag.removeprefix(start) for tag in machine.tags if tag.startswith(start)]
    names = tags or ([machine.name.removesuffix(f".{workspace}")] if machine.pool == start[:-1] else [])
    return next((name.removesuffix(SEAT_SUFFIX) for name in names if name.endswith(SEAT_SUFFIX)), None)


def is_at_a_seat(machine: SeenMachine) -> bool:
    """Whether a machine is at a seat of any workspace."""
    tags = [tag for tag in machine.tags if tag.startswith(WORKSPACE_POOLS)]
    # No name has a dot, and a desktop that is kept may be called like the suffix.
    ends = [tag.split(".")[3:] for tag in tags] or [machine.name.split(".")[:-1]]
    return any(len(end) == 2 and f".{end[1]}" == SEAT_SUFFIX for end in ends)
