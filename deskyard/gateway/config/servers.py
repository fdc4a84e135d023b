"""Where the door takes sessions: the servers of each desktop."""

from deskyard.gateway.machine.layout import Layout
from deskyard.wire.gateway_settings import Desktop, Settings
from deskyard.wire.routes import COMPUTER, DESKTOP, RECORDINGS, ROUTES


def servers(settings: Settings, layout: Layout) -> dict[tuple[str, str], str]:
    """Where HAProxy takes a session, by desktop and backend: filtered ones to the filter, never to the desktop itself.

    Always weight 0: no other session may ever fall through to it.
    """
    places = {
        (desktop.name, backend): (desktop, port)
        for desktop in settings.desktops
        for backend, port in ports_by_backend(desktop).items()
    }
    return {
        (name, backend): f"127.0.0.1:{layout.view_port} weight 0"
        if backend in ROUTES and ROUTES[backend].filtered
        else f"{desktop.address}:{port} weight 0 maxconn {layout.streams_per_session}"
        for (name, backend), (desktop, port) in places.items()
    }


def ports_by_backend(desktop: Desktop) -> dict[str, int]:
    """The backends of a desktop and the ports there: its routes, and its recordings where it has a service of them."""
    has_both = {DESKTOP.name, COMPUTER.name} <= set(desktop.routes)
    return {**desktop.routes, **({RECORDINGS: desktop.routes[COMPUTER.name]} if has_both else {})}
