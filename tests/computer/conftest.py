"""One desktop for all tests of the display, and a service on it."""

from collections.abc import Iterator

import pytest

from deskyard.computer.recording.recorder import Limits
from deskyard.computer.work.part import Work
from tests.computer.desktop import Person, Recorder, Service, XServer, temporary
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
    before = service.last()
    window = Recorder(server.display)
    service.wait("window.appeared", match={"id": window.id}, after=before)
    # A window manager that has just begun manages what is there, and gives it no focus by itself.
    service.client.post(f"/v1/windows/{window.id}/focus")
    service.wait("window.focus", match={"id": window.id}, after=before)
    with window.hearing():
        yield window
        before = service.last()
    window.close()
    service.wait("window.closed", match={"id": window.id}, after=before)


@pytest.fixture
def person(server: XServer, service: Service) -> Iterator[Person]:
    """A person at a viewer; afterwards they have left."""
    somebody = Person(server)
    yield somebody
    before = service.last()
    if service.part.drive.driver == "person":
        service.wait("person.left", after=before)
    somebody.leave()
