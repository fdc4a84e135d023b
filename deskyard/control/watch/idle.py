"""Stops desktops that nobody uses, and wakes those that somebody wants, as their declarations say.

What waits or runs for a desktop is use of it.
"""

import logging

from psycopg.types.json import Jsonb

from deskyard.control.store.connection import Link
from deskyard.control.watch import looks
from deskyard.declaration import declaration
from deskyard.errors import DeskyardError
from deskyard.life import asleep, idle

ACTOR = "idle"
log = logging.getLogger(__name__)


def stop_unused(link: Link, sessions_of: idle.Sessions) -> None:
    """Look at every workspace once; each stop is a line of the audit. `sessions_of` asks a gateway."""
    for name in declaration.stack_names():
        try:
            plan = declaration.read(name).plan
            if not any(desktop.idle for desktop in plan.desktops):
                continue
            in_use = busy(link, name, [desktop.name for desktop in plan.desktops])
            found = idle.stop_unused(name, in_use, sessions_of=sessions_of)
        except DeskyardError as error:
            log.info("%s is not looked at now: %s", name, str(error).splitlines()[0])
            continue
        for use in found:
            if use.asleep and use.used_at is not None:
                detail = {"lastUse": use.used_by, "lastUsedAt": use.used_at}
                _note(link, "desktop.stop", f"{name}.{use.desktop}", detail)


def wake_wanted(link: Link, sessions_of: idle.Sessions) -> None:
    """Start what sleeps and somebody waits for at a gateway; each start is a line of the audit."""
    if not asleep.anywhere():
        return
    for name in declaration.stack_names():
        try:
            woken = idle.wake_wanted(name, sessions_of=sessions_of)
        except DeskyardError as error:
            log.info("nothing of %s is woken now: %s", name, str(error).splitlines()[0])
            continue
        for desktop in woken:
            _note(link, "desktop.start", f"{name}.{desktop.desktop}", {"wantedBy": desktop.wanted_by})


def busy(link: Link, workspace: str, desktops: list[str]) -> set[str]:
    """The desktops for which an operation waits or runs; one of the whole workspace is for all of them.

    A look that nobody asked for is no use of any.
    """
    query = """select distinct desktop_id from operation
        where workspace_id = %s and state in ('queued', 'running') and actor <> %s"""
    ids = {row["desktop_id"] for row in link.execute(query, [workspace, looks.ACTOR]).fetchall()}
    return set(desktops) if None in ids else {id.partition(".")[2] for id in ids}


def _note(link: Link, action: str, desktop: str, detail: dict[str, object]) -> None:
    query = "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)"
    link.execute(query, [ACTOR, action, desktop, Jsonb(detail)])
