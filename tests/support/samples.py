"""Of what takes long, the part that a run has time for; `./inv check.deep` has all of it.

Each run has a test of each file, or as many as its mark says that it `keeps`. A machine that is fast enough has the
others, too, and a slow one those with which it begins in time, in the order of the seed.
"""

import random
import time
from collections import defaultdict

import pytest

MARK = "sampled"
# From the begin of a process on, of a run without machines and of one with them: nothing sampled begins later.
SECONDS = 1500.0
BEGUN = time.monotonic()
_LEFT_OUT = pytest.StashKey[bool]()


def has_all(wanted: str, arguments: list[str]) -> bool:
    """Whether a run has all that is sampled, whatever it takes: a deep one, and that of whoever names files."""
    return wanted == "deep" or any(".py" in argument for argument in arguments)


def put_last(items: list[pytest.Item], seed: int) -> None:
    """Put what may be left out behind the others: of each file all that is sampled, but those that the seed keeps."""
    files = defaultdict[str, list[pytest.Item]](list)
    keeps: dict[str, int] = {}
    for item in items:
        if (mark := item.get_closest_marker(MARK)) is not None:
            name = item.nodeid.partition("::")[0]
            files[name].append(item)
            keeps[name] = mark.kwargs.get("keeps", 1)
    places = {name: place for place, name in enumerate(random.Random(seed).sample(sorted(files), len(files)), 1)}
    behind: dict[pytest.Item, int] = {}
    for name, those in files.items():
        kept = random.Random(f"{seed} {name}").sample(those, keeps[name])
        behind |= {item: places[name] for item in those if item not in kept}
    for item in behind:
        item.stash[_LEFT_OUT] = True
    items.sort(key=lambda item: behind.get(item, 0))


def leave_out(item: pytest.Item, seconds: float) -> None:
    """Skip a test that may be left out, so many seconds after the begin of its run."""
    if item.stash.get(_LEFT_OUT, False) and seconds > SECONDS:
        pytest.skip(f"left to ./inv check.deep: this run is {seconds / 60:.0f} minutes old")
