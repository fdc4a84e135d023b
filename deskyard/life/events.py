"""Says how far desktops are, each change as it comes: of machines by the hypervisor, of routes by the gateway."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deskyard.engine.backend import Machines, Moves
from deskyard.errors import ConfigError, SiteError
from deskyard.host.deadline import Deadline
from deskyard.life import power
from deskyard.life.idle import asleep
from deskyard.plan.power import BROKEN, Moved, follows, stage_of
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.wire.stages import Stage
from deskyard.workspace import readiness

# Machines tell of themselves, routes do not: those of whoever is ready are asked that often whether they still answer.
# Before one is said not to answer, it is asked again so much later.
CHECK_SECONDS, AGAIN_SECONDS = 60.0, 4.0
ASLEEP = "asleep: nobody used it"
Ask = Callable[[WorkspacePlan, Sequence[DesktopPlan]], dict[str, Any]]


@dataclass(frozen=True)
class Event:
    """A desktop came to a state, at a Unix time; of what is so already, when that was seen."""

    workspace: str
    desktop: str
    state: Stage
    at: float
    detail: str = ""


class End:
    """Ends whoever follows, from another thread, also while nothing happens."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self._wake: Callable[[], None] = lambda: None

    @property
    def is_called(self) -> bool:
        """Whether nothing more is wanted."""
        return self._called.is_set()

    def call(self) -> None:
        """End it: no event comes any more."""
        self._called.set()
        self._wake()

    def wakes(self, wake: Callable[[], None]) -> None:
        """Set the function that makes whoever waits look whether it is to end."""
        self._wake = wake


def follow(
    workspace: str,
    end: End | None = None,
    checked: Callable[[str], None] | None = None,
    ask: Ask | None = None,
    watched: Callable[[], None] | None = None,
) -> Iterator[Event]:
    """Each desktop as it is, then every change, for ever or until `end` is called.

    `ask` asks a gateway for its status, of these desktops, in place of the site's key. About every minute `checked` is
    called with what keeps the gateway from answering; empty if it answers, or was not asked since no desktop runs.
    `watched` is called once each machine was looked at, before the gateway is asked for its routes: those that do not
    run were told by then.
    """
    plan, machines = power.look_up(workspace)
    end = end or End()
    with machines.moves() as moves:
        end.wakes(moves.wake)
        watch, check = _Watch(plan, plan.desktops, moves, ask), Deadline(CHECK_SECONDS)
        found = watch.look(machines)
        yield from (event for event in found if event.state is not Stage.BOOTING)
        if watched is not None:
            watched()
        found = watch.settle([event for event in found if event.state is Stage.BOOTING])
        while not end.is_called:
            yield from found
            if check.is_over:
                found = watch.check()
                check = Deadline(CHECK_SECONDS)
                if checked is not None and not end.is_called:
                    checked(watch.silence)
            else:
                found = watch.next(check.left)


def now(workspace: str) -> list[Event]:
    """Each desktop as it is; the gateway is asked once."""
    plan, machines = power.look_up(workspace)
    with machines.moves() as moves:
        watch = _Watch(plan, plan.desktops, moves)
        watch.look(machines)
        watch.ask()
    return [watch.latest[desktop.machine.domain] for desktop in plan.desktops]


def wait(target: str, state: str, seconds: float | None = None) -> Iterator[Event]:
    """Where a desktop is, then each change until it is in a state; by default as long as one may need to boot.

    Raises `SiteError` if it is not in time, or at once if it broke meanwhile.
    """
    wanted = _stage(state)
    name, desktop = power.names(target)
    plan, machines = power.look_up(name)
    limit = readiness.SECONDS[plan.accelerator] if seconds is None else seconds
    last: Event | None = None
    for last in _until(plan, machines, [plan.desktop(desktop)], Deadline(limit)):
        yield last
        if last.state is wanted:
            return
        if last.state in BROKEN and wanted is not Stage.STOPPED:
            why = f" ({last.detail})" if last.detail else ""
            raise SiteError("desktop", target, f"{last.state}{why}", f"see ./inv workspace.status {name}")
    seen = last.state if last else "unknown"
    remedy = "wait longer with --timeout, or see ./inv desktop.health"
    raise SiteError("desktop", target, f"is not {wanted} after {limit:.0f} s, but {seen}", remedy)


def line(event: Event) -> str:
    """An event as a person reads it."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
    return "  ".join(filter(None, [when, f"{event.workspace}/{event.desktop}", event.state, event.detail]))


def plain(event: Event) -> dict[str, Any]:
    """An event for programs."""
    return asdict(event)


def _stage(state: str) -> Stage:
    try:
        return Stage(state)
    except ValueError as error:
        raise ConfigError("--for", state, "is no state of a desktop", f"choose one of: {', '.join(Stage)}") from error


def _until(
    plan: WorkspacePlan, machines: Machines, desktops: Sequence[DesktopPlan], deadline: Deadline
) -> Iterator[Event]:
    with machines.moves() as moves:
        # Only then the first look: what happens between the two is heard.
        watch = _Watch(plan, desktops, moves)
        found = watch.look(machines)
        yield from (event for event in found if event.state is not Stage.BOOTING)
        yield from watch.settle([event for event in found if event.state is Stage.BOOTING])
        while not deadline.is_over:
            yield from watch.next(deadline.left)


class _Watch:
    """The newest event of each desktop, by the name of its machine, and the source of the next."""

    def __init__(
        self, plan: WorkspacePlan, desktops: Sequence[DesktopPlan], moves: Moves, ask: Ask | None = None
    ) -> None:
        self._plan, self._moves = plan, moves
        self._status = ask or readiness.ask
        self._desktops = {desktop.machine.domain: desktop for desktop in desktops}
        self._next_question = Deadline(0)
        self.latest: dict[str, Event] = {}
        # What kept the gateway from answering when it was asked last.
        self.silence = ""

    def look(self, machines: Machines) -> list[Event]:
        """Each machine by its own state."""
        states, at = machines.states(), time.time()
        news = [self._tell(domain, stage_of(states.get(domain)), at) for domain in self._desktops]
        return [event for event in news if event is not None]

    def next(self, seconds: float) -> list[Event]:
        """The next news, of a machine or of routes; nothing if there is none for so long."""
        waits = min(seconds, self._next_question.left) if self._in(Stage.BOOTING) else seconds
        moved = self._moves.next(waits)
        if moved is not None:
            return self._heard([moved])
        return self.ask() if self._next_question.left == 0 else []

    def ask(self) -> list[Event]:
        """The gateway, for the routes of what boots; what moved while it answered is not taken for ready."""
        return self._ask(self._in(Stage.BOOTING))

    def settle(self, booting: list[Event]) -> list[Event]:
        """Those that were seen to run as they are: whoever listens is not told that a ready one boots."""
        news = self.ask()
        better = {event.desktop for event in news}
        return [event for event in booting if event.desktop not in better] + news

    def check(self) -> list[Event]:
        """The gateway, whether the routes of what is ready still answer; it is asked again before one is said not to.

        What only kept it from answering this once is no news of a desktop.
        """
        ready = self._in(Stage.READY)
        if not ready:
            # Whoever boots has it asked often.
            self.silence = self.silence if self._in(Stage.BOOTING) else ""
            return []
        status = self._status(self._plan, ready)
        self.silence = str(status.get("error") or "")
        if readiness.is_ready(status, ready):
            return []
        news = self.next(AGAIN_SECONDS)
        return news or self._ask(self._in(Stage.READY, Stage.BOOTING))

    def _ask(self, desktops: list[DesktopPlan]) -> list[Event]:
        if not desktops:
            return []
        asked = time.monotonic()
        status = self._status(self._plan, desktops)
        self.silence = str(status.get("error") or "")
        self._next_question = Deadline(readiness.pause_after(time.monotonic() - asked))
        news = self._heard(list(iter(lambda: self._moves.next(0), None)))
        moved = {event.desktop for event in news}
        for desktop in desktops:
            if desktop.name not in moved:
                news += self._answered(desktop, status)
        return news

    def _answered(self, desktop: DesktopPlan, status: dict[str, Any]) -> list[Event]:
        answers = status["desktops"].get(desktop.name, {})
        routes = sorted(route for route, answer in answers.items() if answer.get("ready"))
        ready = readiness.is_ready(status, [desktop])
        event = self._tell(
            desktop.machine.domain, Stage.READY if ready else Stage.BOOTING, time.time(), ", ".join(routes)
        )
        return [event] if event is not None else []

    def _heard(self, moves: list[Moved]) -> list[Event]:
        mine = [move for move in moves if move.domain in self._desktops]
        news = [self._tell(move.domain, move.stage, move.at, move.detail) for move in mine]
        return [event for event in news if event is not None]

    def _tell(self, domain: str, stage: Stage, at: float, detail: str = "") -> Event | None:
        """The event, if it is one: the same again without any new detail is not."""
        if stage is Stage.STOPPED and asleep.is_asleep(self._plan, self._desktops[domain].name):
            detail = detail or ASLEEP
        before = self.latest.get(domain)
        if before is not None and not follows(before.state, stage):
            return None
        if before is not None and before.state is stage and detail in ("", before.detail):
            return None
        event = Event(self._plan.name, self._desktops[domain].name, stage, at, detail)
        self.latest[domain] = event
        return event

    def _in(self, *stages: Stage) -> list[DesktopPlan]:
        return [self._desktops[domain] for domain, event in self.latest.items() if event.state in stages]
