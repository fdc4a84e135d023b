"""One desktop for all tests of the display, and a service on it."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.computer.desktop import Person, Recorder, Service, XServer, temporary

NEEDED = ("Xtigervnc", "xfwm4", "xterm", "dbus-run-session")


@pytest.fixture(scope="session")
def server() -> Iterator[XServer]:
    """A display with a window manager."""
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        assert not os.environ.get("CI"), f"CI lacks {missing}: install what host/debian.txt names"
        pytest.skip(f"this machine has no {', '.join(missing)}")
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
    running = Service(server.display)
    yield running
    running.stop()


@pytest.fixture
def recorder(server: XServer, service: Service) -> Iterator[Recorder]:
    """A window in front that notes what comes to it."""
    before = service.last()
    window = Recorder(server.display)
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
