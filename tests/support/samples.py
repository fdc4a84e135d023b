"""Of what takes long, the part that a run has time for; `./inv check.deep` has all of it.

Each run has a test of each marked file, or as many as its mark says that it `keeps`, and a quarter of each file of some
folders. A machine that is fast enough has the others, too, and a slow one those with which it begins in time, in the
order of the seed.
"""

import random
import time
from collections import defaultdict

import pytest

MARK = "sampled"
# Folders with a database, an engine, a proxy or a desktop behind each test: of each of their files a run has one of so
# many tests, where the file's own mark does not say otherwise.
FOLDERS = tuple(f"tests/{name}/" for name in ("control", "desktop", "gateway", "hypervisor", "proxmox", "unit/life"))
FOLDERS_KEEP = 4
# From the begin of a process on, of a run without machines and of one with them: nothing sampled begins later.
SECONDS = 1500.0
BEGUN = time.monotonic()
_LEFT_OUT = pytest.StashKey[bool]()


def has_all(wanted: str, arguments: list[str]) -> bool:
    """Whether a run has all that is sampled, whatever it takes: a deep one, and that of whoever names files."""
    return wanted == "deep" or any(".py" in argument for argument in arguments)


def is_sampled(item: pytest.Item) -> bool:
    """Whether a run that is late may leave a test out."""
    return item.get_closest_marker(MARK) is not None or item.nodeid.startswith(FOLDERS)


def put_last(items: list[pytest.Item], seed: int, processes: int = 1) -> None:
    """Put what may be left out behind the others: of each file all that is sampled, but those that the seed keeps.

    Each of the processes of a run is given an equal part of the list, and ends with its part of what may be left out.
    """
    files = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        # What only a deep run has is no choice of this run.
        if is_sampled(item) and item.get_closest_marker("deep") is None:
            files[item.nodeid.partition("::")[0]].append(item)
    places = {name: place for place, name in enumerate(random.Random(seed).sample(sorted(files), len(files)), 1)}
    behind: dict[pytest.Item, int] = {}
    for name, those in files.items():
        kept = random.Random(f"{seed} {name}").sample(those, _keeps(those))
        behind |= {item: places[name] for item in those if item not in kept}
    for item in behind:
        item.stash[_LEFT_OUT] = True
    first = [item for item in items if item not in behind]
    last = sorted(behind, key=lambda item: behind[item])
    items[:] = [item for part in range(processes) for those in (first, last) for item in _part(those, part, processes)]


def _keeps(those: list[pytest.Item]) -> int:
    """Of how many tests of a file each run has."""
    mark = those[0].get_closest_marker(MARK)
    return mark.kwargs.get("keeps", 1) if mark is not None else -(-len(those) // FOLDERS_KEEP)


def _part(those: list[pytest.Item], part: int, parts: int) -> list[pytest.Item]:
    return those[len(those) * part // parts : len(those) * (part + 1) // parts]


def leave_out(item: pytest.Item, seconds: float) -> None:
    """Skip a test that may be left out, so many seconds after the begin of its run."""
    if item.stash.get(_LEFT_OUT, False) and seconds > SECONDS:
        pytest.skip(f"left to ./inv check.deep: this run is {seconds / 60:.0f} minutes old")
