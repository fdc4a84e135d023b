"""Stops desktops that nobody uses, and wakes those that somebody wants, as their declarations say.

What waits or runs for a desktop is use of it.
"""

import logging

import psycopg
from psycopg.types.json import Jsonb

from deskyard.control.ground.threads import Threads
from deskyard.control.store.connection import Link
from deskyard.control.store.pool import Lend
from deskyard.control.watch import looks
from deskyard.declaration import declaration
from deskyard.errors import DeskyardError
from deskyard.life.idle import asleep, idle
from deskyard.life.idle.awaited import Tell

ACTOR = "idle"
log = logging.getLogger(__name__)


class Uses:
    """Looks how desktops are used, in each workspace by itself: none waits for the gateway or the machines of another.

    `sessions_of` asks a gateway, `tell` the pages that wait there what came of it.
    """

    def __init__(self, lend: Lend, sessions_of: idle.Sessions, tell: Tell) -> None:
        self._lend, self._sessions_of, self._tell = lend, sessions_of, tell
        self._stops, self._wakes = Threads(self._stop), Threads(self._wake)

    def stop_unused(self) -> None:
        """Begin to look at every workspace that is not looked at still."""
        self._stops.begin(declaration.stack_names())

    def wake_wanted(self) -> None:
        """Begin to look who waits, in every workspace that is not asked still; gateways only where something sleeps."""
        if asleep.anywhere():
            self._wakes.begin(declaration.stack_names())

    def _stop(self, name: str) -> None:
        try:
            stop_unused(self._lend, name, self._sessions_of)
        except (DeskyardError, psycopg.Error) as error:
            log.info("%s is not looked at now: %s", name, str(error).splitlines()[0])

    def _wake(self, name: str) -> None:
        try:
            wake_wanted(self._lend, name, self._sessions_of, self._tell)
        except (DeskyardError, psycopg.Error) as error:
            log.info("nothing of %s is woken now: %s", name, str(error).splitlines()[0])


def stop_unused(lend: Lend, name: str, sessions_of: idle.Sessions) -> None:
    """Look at a workspace once; each stop is a line of the audit."""
    plan = declaration.read(name).plan
    if not any(desktop.idle for desktop in plan.desktops):
        return
    names = [desktop.name for desktop in plan.desktops]

    def in_use() -> set[str]:
        with lend() as link:
            return busy(link, name, names)

    for use in idle.stop_unused(name, in_use, sessions_of=sessions_of):
        if use.asleep and use.used_at is not None:
            detail = {"lastUse": use.used_by, "lastUsedAt": use.used_at}
            _note(lend, "desktop.stop", f"{name}.{use.desktop}", detail)


def wake_wanted(lend: Lend, name: str, sessions_of: idle.Sessions, tell: Tell) -> None:
    """Start what sleeps in a workspace and somebody waits for at its gateway; each start is a line of the audit."""
    for desktop in idle.wake_wanted(name, sessions_of=sessions_of, tell=tell):
        _note(lend, "desktop.start", f"{name}.{desktop.desktop}", {"wantedBy": desktop.wanted_by})


def busy(link: Link, workspace: str, desktops: list[str]) -> set[str]:
    """The desktops for which an operation waits or runs; one of the whole workspace is for all of them.

    A look that nobody asked for is no use of any.
    """
    query = """select distinct desktop_id from operation
        where workspace_id = %s and state in ('queued', 'running') and actor <> %s"""
    ids = {row["desktop_id"] for row in link.execute(query, [workspace, looks.ACTOR]).fetchall()}
    return set(desktops) if None in ids else {id.partition(".")[2] for id in ids}


def _note(lend: Lend, action: str, desktop: str, detail: dict[str, object]) -> None:
    query = "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)"
    with lend() as link:
        link.execute(query, [ACTOR, action, desktop, Jsonb(detail)])
