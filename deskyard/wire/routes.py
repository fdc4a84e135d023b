"""The routes: what a session may reach on a desktop. A new one is a row here, and the role that serves it."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """A program of a desktop that people or programs reach, and where the gateway's door has it."""

    name: str
    place: str  # the last part of its path at the door: /d/DESKTOP/PLACE
    port: int  # of the desktop
    path: str  # at the desktop; of a route for programs: what answers when all is well
    protocol: str = ""  # the sub-protocol of WebSocket that its program speaks
    refuses_other_protocols: bool = False
    filtered: bool = False  # carried by the filter: many may look on, and one of them acts
    viewable: bool = False  # has a form in which nothing can be done
    for_programs: bool = False  # HTTP and WebSockets below its place, with a token of its own and never a cookie
    awaited: bool = True  # a desktop is ready only when it answers; false for what older images lack


DESKTOP = Route("desktop", "vnc", 6080, "/websockify", "binary", filtered=True, viewable=True)
TERMINAL = Route("terminal", "terminal", 7681, "/ws", "tty", refuses_other_protocols=True)
COMPUTER = Route("computer", "computer", 6090, "/healthz", for_programs=True, awaited=False)
ROUTES = {route.name: route for route in (DESKTOP, TERMINAL, COMPUTER)}
# Beside the screen, who has that one may read what was recorded of it: its place at the door, and its backend there.
RECORDINGS = "recordings"


def backends_of(routes: Iterable[str]) -> tuple[str, ...]:
    """The backends of a desktop that a session with these routes comes to, where the desktop has them."""
    names = tuple(routes)
    return (*names, RECORDINGS) if DESKTOP.name in names else names
