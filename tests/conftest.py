"""What every test may ask for."""

import os
import random
import time
from collections.abc import Callable

import pytest

READY_SECONDS = 300.0

SEED = int(os.environ.get("DESKYARD_SEED") or random.SystemRandom().randrange(2**32))
# The other processes of a parallel run start from the same seed.
os.environ["DESKYARD_SEED"] = str(SEED)


def pytest_report_header() -> str:
    """Name the seed, so that a failure of a sample can be had again."""
    return f"seed of random samples: {SEED} (again with DESKYARD_SEED={SEED})"


@pytest.fixture(scope="session")
def random_seed() -> int:
    """The seed of whatever a test leaves to chance; `./inv check.deep --seed` and DESKYARD_SEED set it."""
    return SEED


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool], str], None]:
    """Wait until a condition holds: an emulated desktop takes a minute to come up after SSH answers."""

    def wait(condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + READY_SECONDS
        while not condition():
            assert time.monotonic() < until, f"not within {READY_SECONDS:.0f} s: {what}"
            time.sleep(2)

    return wait
