"""One Mission Control for all tests of the folder; each finds it empty."""

from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest

from deskyard.control.ground.confinement import LATE
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import Link, connect
from tests.control.lab import CHILD, EVERYTHING, Lab, lab, lab_elsewhere
from tests.control.taken import confined
from tests.support import postgres
from tests.support.requirements import need_root


@pytest.fixture(scope="session")
def here() -> Iterator[Lab]:
    """Mission Control with its database on this machine.

    A module whose tests have another, or several in turn, overrides `whole`: a parameter of that name would have pytest
    make this one anew for each of its values, and again for the module that follows.
    """
    need_root("gives processes accounts of their own")
    with lab() as found:
        yield from _watched(found)


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Lab]:
    """Another, whose database is on a server elsewhere."""
    need_root("gives processes accounts of their own")
    with postgres.server() as server, lab_elsewhere(server) as found:
        yield from _watched(found)


def _watched(found: Lab) -> Iterator[Lab]:
    yield found
    for name in ("web", "recorder"):
        late = [line for line in found.log(name).splitlines() if LATE in line]
        # Below a folder that is closed to its account, such as root's home, the process would fail there.
        assert not late, f"{name} imports what it may not be able to read any more:\n{late}"


@pytest.fixture(scope="session")
def whole(here: Lab) -> Lab:
    """The Mission Control of a test."""
    return here


@pytest.fixture
def child() -> str:
    """The program that does operations; of a file with another its tests share a worker, too."""
    return CHILD


@pytest.fixture
def mission(whole: Lab, child: str) -> Iterator[Lab]:
    whole.clear()
    _begin(whole, "web", "recorder")
    whole.work_by(child)
    yield whole
    # What still runs is not the next test's.
    for row in whole.link.execute("select id from operation where state = 'running'").fetchall():
        whole.link.execute("update operation set state = 'cancelled', attempt = attempt + 1 where id = %s", [row["id"]])


@pytest.fixture
def without_worker(whole: Lab) -> Lab:
    """A Mission Control in which nothing that is wanted begins; its next test begins no worker only to end it."""
    if "worker" in whole.processes:
        whole.end("worker")
    whole.clear()
    _begin(whole, "web", "recorder")
    return whole


def _begin(whole: Lab, *names: str) -> None:
    for name in names:
        if name not in whole.processes:
            getattr(whole, name)()


@pytest.fixture
def owner(mission: Lab) -> Iterator[httpx.Client]:
    """A client whose key may do everything."""
    with mission.client(mission.key(*EVERYTHING)) as client:
        yield client


@pytest.fixture
def worker(mission: Lab) -> Iterator[Link]:
    """A connection as worker and watch have it."""
    with connect(mission.url(WORKER)) as link:
        yield link


@pytest.fixture
def taken(mission: Lab) -> Callable[..., str]:
    """Runs a program where the web process runs, with its account or another's; what it prints."""
    return partial(confined, mission)
