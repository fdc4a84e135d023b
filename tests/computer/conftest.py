"""One desktop for all tests of the display, and a service on it."""

import asyncio
import sys
from collections.abc import Awaitable, Iterator
from typing import TypeVar

import pytest

from deskyard.computer.recording.recorder import Limits
from deskyard.computer.work.part import Work
from tests.computer.desktop import Person, Recorder, Service, XServer, in_front, managed, temporary
from tests.support.requirements import need_programs

T = TypeVar("T")
NEEDED = ("Xtigervnc", "xfwm4", "xterm", "dbus-daemon")


@pytest.fixture(scope="session", autouse=True)
def as_on_a_desktop() -> Iterator[None]:
    """Let asyncio wait as the Python of a desktop does (3.13), also where the tests run with an older one.

    Before 3.12 `wait_for` loses a cancellation that comes in the moment of its answer (python/cpython#86296): what the
    service had given up went on to its time limit.
    """

    async def wait_for(awaited: Awaitable[T], timeout: float | None) -> T:
        async with asyncio.timeout(timeout):
            return await awaited

    with pytest.MonkeyPatch.context() as monkeypatch:
        if sys.version_info < (3, 12):
            monkeypatch.setattr(asyncio, "wait_for", wait_for)
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[XServer]:
    """A display with a window manager."""
    need_programs(*NEEDED)
    with managed() as running:
        yield running


@pytest.fixture(scope="session")
def service(server: XServer) -> Iterator[Service]:
    """The service on that display; a person who is still seems to have left after half a second."""
    with temporary() as home:
        recorded = home / "recorded"
        recorded.mkdir()
        limits = Limits(least_free=0, retry_seconds=0.2)
        running = Service(server.display, bus=server.bus, also=[Work(home)], recorded=recorded, limits=limits)
        yield running
        running.stop()


@pytest.fixture
def recorder(server: XServer, service: Service) -> Iterator[Recorder]:
    """A window in front that notes what comes to it."""
    with in_front(server, service) as window:
        yield window


@pytest.fixture
def person(server: XServer, service: Service) -> Iterator[Person]:
    """A person at a viewer; afterwards they have left."""
    somebody = Person(server)
    yield somebody
    before = service.last()
    if service.part.drive.driver == "person":
        service.wait("person.left", after=before)
    somebody.leave()
