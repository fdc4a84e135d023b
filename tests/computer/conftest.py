"""One desktop for all tests of the display, and a service on it."""

from collections.abc import Iterator

import pytest

from deskyard.computer.recording.recorder import Limits
from deskyard.computer.work.part import Work
from tests.computer.desktop import Person, Recorder, Service, XServer, in_front, temporary
from tests.support.requirements import need_programs

NEEDED = ("Xtigervnc", "xfwm4", "xterm", "dbus-daemon")


@pytest.fixture(scope="session")
def server() -> Iterator[XServer]:
    """A display with a window manager."""
    need_programs(*NEEDED)
    with temporary() as folder:
        running = XServer(folder)
        try:
            running.manage()
            yield running
        finally:
            running.stop()


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
