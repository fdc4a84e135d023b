"""A home, and the service that works in it: new for each file of tests."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from deskyard.computer.work.part import Work
from tests.unit.computer.serving import home_of, served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with home_of(tmp_path_factory.mktemp("work")) as home:
        yield home


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[httpx.Client]:
    with served([Work(home)]) as url, httpx.Client(verify=False, base_url=url, timeout=30) as client:
        yield client
