"""The part of HAProxy's configuration that follows the sessions: made by root from the service's records.

The session service has no right to write configuration that HAProxy's privileged process reads; it only keeps
records, and every value taken from them is checked here again.
"""

import re
import time

from deskyard.gateway.config import render
from deskyard.gateway.machine import files
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session.store import Store
from deskyard.wire.gateway_settings import Settings
from deskyard.wire.routes import backends_of

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{16,40}\Z")


def text(settings: Settings, layout: Layout) -> str:
    """The backends with the servers of the sessions that are alive."""
    servers: dict[tuple[str, str], list[str]] = {}
    if layout.database.exists():
        for session in Store(layout.database, read_only=True).alive(time.time()):
            if SESSION_ID.match(session.id):
                for route in backends_of(session.routes):
                    servers.setdefault((session.desktop, route), []).append(session.id)
    return render.backends(settings, layout, servers)


def ensure_revoked(layout: Layout) -> None:
    """Write the ids that are revoked and not yet expired."""
    ids: list[str] = []
    if layout.database.exists():
        revoked = Store(layout.database, read_only=True).revoked(time.time())
        ids = [session.id for session in revoked if SESSION_ID.match(session.id)]
    files.write(layout.revoked_file, "".join(f"{id}\n" for id in ids))


def ensure_shut(settings: Settings, layout: Layout) -> None:
    """Write the desktops that are shut for programs, by reason: a new worker begins with them shut."""
    private, stopped = set[str](), set[str]()
    if layout.database.exists():
        store = Store(layout.database, read_only=True)
        private, stopped = store.private(), {halt.desktop for halt in store.halts() if halt.stops}
    for path, names in ((layout.private_file, private), (layout.stopped_file, stopped)):
        files.write(path, "".join(f"{desktop.name}\n" for desktop in settings.desktops if desktop.name in names))


def write(settings: Settings, layout: Layout) -> None:
    """Write all of them."""
    # First what the backends read.
    ensure_shut(settings, layout)
    files.write(layout.backends_file, text(settings, layout))
    ensure_revoked(layout)
