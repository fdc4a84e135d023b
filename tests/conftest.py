"""What every test may ask for."""

import os
import random

import pytest

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
