"""Starts desktops that sleep and that somebody waits for, who hears at once that they start, or why they do not."""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial

from deskyard.errors import DeskyardError, SiteError
from deskyard.host.progress import say
from deskyard.life import power
from deskyard.life.idle import asleep
from deskyard.plan.power import NoRoom, Power
from deskyard.wire.session_requests import FAILED, NO_ROOM, STARTS

# Tells who waits for a desktop of a workspace what came of it.
Tell = Callable[[str, str, str], object]
# The same of a workspace that is chosen: a desktop, and what came of it.
Said = Callable[[str, str], None]


def start(name: str, wanting: Mapping[str, str], tell: Tell) -> list[str]:
    """Start desktops of a workspace, by who wants each; those that were started here. Their routes are not waited for.

    All are announced before the first has its turn, which a backup may keep from it for long: a program that hears
    nothing gives up.
    """
    said = partial(_said, tell, name)
    found = [_announced(f"{name}/{desktop}", actor, said) for desktop, actor in wanting.items()]
    return [machine.name for machine in found if machine is not None and _is_started(machine, said)]


def _announced(target: str, actor: str, said: Said) -> power.Machine | None:
    """The machine of a desktop, once who waits for it heard that it starts; none of one that cannot be started.

    Its memory is counted on from here on: one without is not said to start each time that somebody looks.
    """
    _, desktop = power.names(target)
    say(f"    {desktop} slept, and {actor} wants it: it is started")
    try:
        machine = power.expected(target)
    except (SiteError, NoRoom) as error:
        _refused(desktop, error, said)
        return None
    if not asleep.is_asleep(machine.plan, desktop):
        return None
    said(desktop, STARTS)
    return machine


def _is_started(machine: power.Machine, said: Said) -> bool:
    """Start one that was announced; whether it was started here. Who waits for it hears if nothing comes of it."""
    try:
        if power.wake(machine.target, wait=False, shows=False):
            return True
        # Somebody moved it before its turn came.
        if machine.machines.desired().get(machine.domain) is Power.RUNNING:
            return False
    except (SiteError, NoRoom) as error:
        _refused(machine.name, error, said)
    else:
        said(machine.name, FAILED)
    # Its pages were shown that it boots.
    machine.show_rest()
    return False


def _refused(desktop: str, error: SiteError | NoRoom, said: Said) -> None:
    say(f"    {error}")
    said(desktop, NO_ROOM if isinstance(error, NoRoom) else FAILED)


def _said(tell: Tell, name: str, desktop: str, came: str) -> None:
    # A courtesy to who waits: nothing hangs on it, and a gateway from before does not know it.
    with contextlib.suppress(DeskyardError):
        tell(name, desktop, came)
