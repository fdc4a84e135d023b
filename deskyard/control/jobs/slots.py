"""How many operations of each share of the work run at once. Pure.

An agent works for hours, a backup is made for minutes, a person waits for seconds: none takes a slot of another.
Which kind of operation is of which share says the database's `share_of`.
"""

from collections.abc import Collection, Mapping

# A run of the engine needs about a gigabyte, the program that carries a turn some 70 MiB.
ENGINE_MIB, TURN_MIB = 1024, 70
MOST = {
    "agents": 200,
    "engine": 6,
    "machines": 12,
    "backups": 3,
    "sessions": 12,
    "looks": 3,
    "stops": 4,
    "answers": 8,
}
SHARES = tuple(MOST)
LEAST = {"agents": 6, "engine": 1}


def slots(memory_mib: int) -> dict[str, int]:
    """The slots of each share on a host with so much memory: half of it for turns, a quarter for runs of the engine."""
    bounded = {"agents": memory_mib // 2 // TURN_MIB, "engine": memory_mib // 4 // ENGINE_MIB}
    return MOST | {share: min(MOST[share], max(LEAST[share], fit)) for share, fit in bounded.items()}


def full(slots: Mapping[str, int], taken: Collection[str]) -> list[str]:
    """The shares of which no slot is left, where those of `taken` run."""
    return [share for share in SHARES if sum(each == share for each in taken) >= slots[share]]
