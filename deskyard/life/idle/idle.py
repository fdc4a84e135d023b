"""Stops desktops that nobody uses, and starts them again for whoever wants them.

Used is a desktop with a task, or whose operator said so (`busy`); with a viewer in which somebody acted; or whose
machine takes more of a processor or the network than its declaration calls idle. What cannot be asked counts as used.
"""

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.errors import DeskyardError, SiteError
from deskyard.host import jump
from deskyard.host.jump import Moment
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import write_secret
from deskyard.life import power
from deskyard.life.idle import asleep, awaited
from deskyard.life.idle.awaited import Tell
from deskyard.model.idle import Idle
from deskyard.plan.power import Load, Power, Rate, rate
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan

UNKNOWN, JUMPED = "nobody looked before", "the clock was set, or the host slept"
# Time servers move a clock by less between two looks.
JUMP_SECONDS = 60.0
# An average over less says nothing of how a machine is used.
AVERAGE_SECONDS = 30.0
Clock = Callable[[], float]
# The desktops that have a task; asked anew before one is stopped.
Busy = Callable[[], Collection[str]]
# The sessions of a workspace; none if its gateway cannot be asked, and nobody knows who uses what.
Sessions = Callable[[str], list[dict[str, Any]] | None]


@dataclass(frozen=True)
class Use:
    """How a desktop is used: its machine's state, who or what used it last, when (Unix time), and when it is stopped.

    `stops_at` is none while its machine does not run. `asleep`: it was stopped because nobody used it.
    """

    desktop: str
    state: str
    used_by: str
    used_at: float | None
    stops_at: float | None
    asleep: bool = False


@dataclass(frozen=True)
class Woken:
    """A desktop that was started for somebody at its gateway who wants it, and who that is."""

    desktop: str
    wanted_by: str


@dataclass(frozen=True)
class _Look:
    """A look at a desktop that runs: its load, and when it was used last."""

    moment: Moment
    load: Load
    used_at: float
    used_by: str


def look(
    name: str,
    busy: Busy = frozenset,
    clock: Clock = time.time,
    sessions_of: Sessions | None = None,
    only: str | None = None,
) -> list[Use]:
    """Look at the desktops of a workspace that may be stopped; what is seen is kept for the next look.

    `sessions_of` asks its gateway in place of the site's key; `only` is the one desktop to look at.
    """
    plan, machines = power.look_up(name)
    wanted = [desktop for desktop in plan.desktops if desktop.idle is not None and only in (None, desktop.name)]
    if not wanted:
        return []
    states = machines.states()
    running = [desktop for desktop in wanted if _state(states, desktop) == "running"]
    with alone(f"idle-{plan.site}-{plan.name}"):
        # By the time that the host was awake: while it sleeps, nobody could use anything.
        before, now = _kept(plan), replace(jump.awake(), clock=clock())
        loads = machines.loads([desktop.machine.domain for desktop in running])
        sessions = (sessions_of or _sessions)(name) if running else []
        tasks = busy() if running else ()
        seen = {}
        for desktop in running:
            load = loads.get(desktop.machine.domain)
            if load is not None:
                seen[desktop.name] = _judged(desktop, before.get(desktop.name), load, now, tasks, sessions)
        others = {} if only is None else {name: kept for name, kept in before.items() if name != only}
        _keep(plan, {**others, **seen})
    return [_use(plan, desktop, _state(states, desktop), seen.get(desktop.name)) for desktop in wanted]


def stop_unused(
    name: str, busy: Busy = frozenset, clock: Clock = time.time, sessions_of: Sessions | None = None
) -> list[Use]:
    """Look, and stop what nobody has used for as long as its declaration says; answers how all are then.

    Each is looked at again when its turn has come. A desktop that does not shut down goes on, and is looked at anew.
    """
    found = []
    for use in look(name, busy, clock, sessions_of):
        if _is_due(use, clock):
            try:
                use = _put_to_sleep(name, use, lambda only: look(name, busy, clock, sessions_of, only), clock)
            except SiteError as error:
                say(f"    {error}")
        found.append(use)
    return found


def wake(target: str) -> bool:
    """Start a desktop that sleeps, and wait until its routes answer; false if it does not sleep, or is not to be woken.

    For whoever wants it: nothing is asked of the hypervisor unless it was put to sleep.
    """
    name, reached = power.names(target)
    plan = declaration.read(name).plan
    desktop = plan.reached(reached)
    if _sleeps_since(plan, desktop) is None:
        return False
    say(f"    {desktop.name} slept, since nobody used it: it is started")
    return power.wake(target)


def wake_wanted(
    name: str, clock: Clock = time.time, sessions_of: Sessions | None = None, tell: Tell | None = None
) -> list[Woken]:
    """Start the desktops that sleep and that somebody at the gateway has wanted since; does not wait for their routes.

    The gateway's word starts nothing else, and it is asked only where something sleeps that may be woken so. One that
    does not start is named, and is drift as after `desktop.start`; one without room sleeps on, and is tried anew. Who
    waits for it is told that it starts before its turn has come, and is told otherwise if it then does not.
    """
    plan = declaration.read(name).plan
    sleeping = {desktop.name: at for desktop in plan.desktops if (at := _sleeps_since(plan, desktop)) is not None}
    sessions = (sessions_of or _sessions)(name) if sleeping else []
    wanting: dict[str, str] = {}
    for session in sessions or ():
        desktop, wanted = session["desktop"], session.get("wanted")
        # What was wanted before it slept, it had.
        if wanted is not None and desktop in sleeping and clock() - wanted >= sleeping[desktop]:
            wanting.setdefault(desktop, session["actor"])
    started = awaited.start(name, wanting, tell or access.tell_waking)
    return [Woken(desktop, wanting[desktop]) for desktop in started]


def _sleeps_since(plan: WorkspacePlan, desktop: DesktopPlan) -> float | None:
    """Since when a desktop sleeps that whoever wants it may wake."""
    if desktop.idle is None or desktop.idle.wake != "on_access":
        return None
    return asleep.since(plan, desktop.name)


def text(found: Iterable[Use], clock: Callable[[], float] = time.time) -> str:
    """How desktops are used, a line each."""
    return "\n".join(_line(use, clock()) for use in found) or "no desktop here is declared to be stopped when idle"


def _line(use: Use, now: float) -> str:
    if use.asleep:
        return f"{use.desktop}  asleep: a link, its page or a task starts it"
    if use.used_at is None or use.stops_at is None:
        return f"{use.desktop}  {use.state}"
    minutes, left = int(now - use.used_at) // 60, max(0, int(use.stops_at - now)) // 60
    return f"{use.desktop}  {use.state}  {use.used_by}, {minutes} minutes ago; is stopped in {left} minutes"


def _judged(
    desktop: DesktopPlan,
    before: _Look | None,
    load: Load,
    moment: Moment,
    busy: Collection[str],
    sessions: list[dict[str, Any]] | None,
) -> _Look:
    """The look that was taken now; unless something used the desktop since, it was last used when it was before."""
    assert desktop.idle is not None
    now = moment.clock
    if before is None:
        return _Look(moment, load, now, UNKNOWN)
    passed = now - before.moment.clock
    if passed < 0 or moment.ahead_of(before.moment) > JUMP_SECONDS:
        # Over time that was none, what it took is no average, and nobody's last use is long ago.
        return _Look(moment, load, now, JUMPED)
    used_at, used_by = before.used_at, before.used_by
    if sessions is None:
        used_at, used_by = now, "its gateway does not answer"
    for session in sessions or ():
        if session["desktop"] == desktop.name and session["idle"] is not None and now - session["idle"] > used_at:
            used_at, used_by = now - session["idle"], f"{session['actor']} {session['does']}"
    average = rate(before.load, load, passed) if passed else Rate(0, 0)
    is_long = average is None or passed >= AVERAGE_SECONDS
    if is_long and (reason := _taken(desktop.idle, average)):
        used_at, used_by = now, reason
    if desktop.name in busy:
        used_at, used_by = now, "it has a task"
    # The next average is of all the time since the last one.
    return _Look(moment, load, used_at, used_by) if is_long else replace(before, used_at=used_at, used_by=used_by)


def _taken(idle: Idle, found: Rate | None) -> str:
    """The reason why a machine is not idle, by what it took; empty if it is."""
    if found is None:
        return "it was started"
    if found.cpu_percent > idle.cpu_percent:
        return f"it took {found.cpu_percent:.0f} % of a processor"
    if found.network_kib_per_second > idle.network_kib_per_second:
        return f"it sent and got {found.network_kib_per_second:.0f} KiB/s"
    return ""


def _is_due(use: Use, clock: Clock) -> bool:
    return use.stops_at is not None and use.stops_at <= clock()


def _put_to_sleep(name: str, use: Use, look_again: Callable[[str], list[Use]], clock: Clock) -> Use:
    """Stop a desktop unless somebody uses it when its turn has come, or has stopped it; how it is then."""
    machine, seen = power.opened(f"{name}/{use.desktop}"), use

    def is_unused() -> bool:
        nonlocal seen
        # None where its declaration lets it stay by now.
        for seen in look_again(use.desktop):
            return _is_due(seen, clock)
        return False

    def stop() -> None:
        say(f"    {use.desktop}: nobody uses it")
        asleep.note(machine.plan, machine.name)
        try:
            machine.shut_down()
        except BaseException:
            asleep.forget(machine.plan, machine.name)
            raise

    if not machine.move(Power.OFF, stop, is_unused):
        return seen
    state = str(machine.state()["machines"][0]["state"])
    return Use(use.desktop, state, use.used_by, use.used_at, None, asleep=True)


def _use(plan: WorkspacePlan, desktop: DesktopPlan, state: str, seen: _Look | None) -> Use:
    assert desktop.idle is not None
    if seen is None:
        sleeps = state != "running" and asleep.is_asleep(plan, desktop.name)
        return Use(desktop.name, state, "", None, None, sleeps)
    return Use(desktop.name, state, seen.used_by, seen.used_at, seen.used_at + desktop.idle.stop_seconds)


def _state(states: Mapping[str, Mapping[str, Any]], desktop: DesktopPlan) -> str:
    return str(states.get(desktop.machine.domain, {}).get("state", "absent"))


def _sessions(name: str) -> list[dict[str, Any]] | None:
    with contextlib.suppress(DeskyardError):
        return list(access.sessions(name))
    return None


def _kept(plan: WorkspacePlan) -> dict[str, _Look]:
    try:
        found = json.loads(_file(plan).read_text())
        return {name: _read(values) for name, values in found.items()}
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return {}  # nobody looked before, or another release did


def _read(values: Mapping[str, Any]) -> _Look:
    return _Look(**{**values, "moment": Moment(**values["moment"]), "load": Load(**values["load"])})


def _keep(plan: WorkspacePlan, seen: Mapping[str, _Look]) -> None:
    write_secret(_file(plan), json.dumps({name: asdict(look) for name, look in seen.items()}).encode())


def _file(plan: WorkspacePlan) -> Path:
    return places().workspace(plan.site, plan.name) / "idle.json"
