"""Agents that people have stopped: no program comes through the door, and what they run on the desktop is halted.

The first is in force when a stop is answered, by HAProxy; the second is said to the desktop by the filter, again and
again, so that a stop outlives restarts of the desktop and of this gateway. It stands until somebody lets the agent go
on; what the host has stopped, only the host.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Protocol

from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Halt, Session, Store
from deskyard.wire.computer import HALT_PORT
from deskyard.wire.gateway_settings import Settings

Place = tuple[str, int, bool]  # where a desktop is told so, and whether its agent is stopped


class Note(Protocol):
    """Writes a decision down."""

    def __call__(self, event: str, **facts: object) -> object: ...


class Halts:
    """The stopped agents of a gateway; `changed` is called when these are others."""

    def __init__(self, settings: Settings, store: Store, note: Note, clock: Callable[[], float] = time.time) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._places = settings.program_places
        self._store = store
        self._note = note
        self._clock = clock
        self._halts = {halt.desktop: halt for halt in store.halts()}
        self._still: dict[str, bool | None] = {}  # what the desktop says of its agent; None for nothing

    def stop(self, desktop: str, actor: str, session: Session | None = None) -> None:
        """Stop the agent of a desktop for a person's page, or for the host; raises `GatewayError` if none may."""
        self._require(desktop, session)
        before = self._halts.get(desktop)
        if before and before.stops and (before.by_host or session):
            return
        halt = Halt(desktop, actor, self._clock(), by_host=session is None)
        # It holds even if it cannot be written down: whoever asks hears that it may not outlive a restart.
        self._set(halt)
        with self._store.whole():
            self._store.set_halt(halt)
            self._note("halt", **_about(halt, session), result="stopped")

    def let_go(self, desktop: str, actor: str, session: Session | None = None) -> None:
        """Let the agent of a desktop go on; raises `GatewayError` if this is not for a person's page to say."""
        self._require(desktop, session)
        before = self._halts.get(desktop)
        if before is None or not before.stops:
            return
        if before.by_host and session:
            reason, remedy = f"was stopped by its host, for {before.actor}", "ask who runs the host to let it go on"
            raise Refusal(HTTPStatus.CONFLICT, "agent", reason, remedy, desktop)
        halt = replace(before, actor=actor, since=self._clock(), by_host=session is None, stops=False)
        with self._store.whole():
            self._store.set_halt(halt)
            self._note("resume", **_about(halt, session), result="goes on")
        self._set(halt)

    def stopped(self) -> set[str]:
        """The desktops whose agents are stopped."""
        return {halt.desktop for halt in self._halts.values() if halt.stops}

    def places(self) -> dict[str, Place]:
        """Where each desktop is told that its agent is stopped, or is to go on."""
        halts = [halt for halt in self._halts.values() if halt.desktop in self._places]
        return {halt.desktop: (self._places[halt.desktop][0], HALT_PORT, halt.stops) for halt in halts}

    def found(self, desktop: str, still: object) -> None:
        """Take in what a desktop says: whether its agent stands still; of one that goes on, nothing is kept."""
        halt = self._halts.get(desktop)
        if halt is None:
            return
        self._still[desktop] = still if isinstance(still, bool) else None
        if still is False and not halt.stops:
            self._store.end_halt(desktop)
            self._forget(desktop)

    def keep(self, declared: Collection[str]) -> None:
        """Forget what was said of desktops that are declared no more: another of that name is another desktop."""
        for desktop in self._halts.keys() - set(declared):
            self._store.end_halt(desktop)
            self._forget(desktop)

    def facts(self, desktop: str, *, shut: bool) -> dict[str, Any] | None:
        """The facts that a page shows of a desktop's agent; None where no program comes by this gateway."""
        if desktop not in self._places:
            return None
        halt = self._halts.get(desktop)
        if halt is None:
            return {"stopped": False}
        about = {"by": halt.actor, "since": int(halt.since), "by_host": halt.by_host}
        return {"stopped": halt.stops, **about, "shut": shut, "still": self._still.get(desktop)}

    def listing(self) -> list[dict[str, Any]]:
        """The desktops whose agents are stopped, for the host."""
        return [
            {"desktop": halt.desktop, **(self.facts(halt.desktop, shut=halt.stops) or {})}
            for halt in sorted(self._halts.values(), key=lambda halt: halt.since)
        ]

    def _require(self, desktop: str, session: Session | None) -> None:
        if session is not None and session.mode != "drive":
            reason, remedy = "may only look on", "ask who gave you the link for one to drive"
            raise Refusal(HTTPStatus.FORBIDDEN, "mode", reason, remedy, session.mode)
        if desktop not in self._places:
            reason, remedy = "has no agent that this gateway could stop", "stop the desktop itself: ./inv desktop.stop"
            raise Refusal(HTTPStatus.CONFLICT, "agent", reason, remedy, desktop)

    def _set(self, halt: Halt) -> None:
        self._halts[halt.desktop] = halt
        self._still.pop(halt.desktop, None)
        self.changed()

    def _forget(self, desktop: str) -> None:
        self._halts.pop(desktop, None)
        self._still.pop(desktop, None)
        self.changed()


def _about(halt: Halt, session: Session | None) -> dict[str, object]:
    about: dict[str, object] = {"desktop": halt.desktop, "actor": halt.actor}
    return about if session is None else {"session": session.id, **about, "mode": session.mode}
