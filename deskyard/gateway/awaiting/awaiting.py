"""Who waits for a desktop that does not answer, and who wants it to start; how far it is as the filter finds it.

A want starts nothing: it stands in the list of sessions, which the host reads. The host alone decides, and starts what
it stopped itself because nobody used it.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.actions.table import WORKING
from deskyard.gateway.awaiting.stages import Stages
from deskyard.gateway.page_news import Page, Pages
from deskyard.gateway.session.grants import AGENT
from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Session
from deskyard.gateway.session.streams import Note
from deskyard.wire.gateway_settings import Settings
from deskyard.wire.routes import ROUTES
from deskyard.wire.session_requests import STARTS, WAKINGS
from deskyard.wire.stages import Stage

PAGES_PER_SESSION = 2
PAGES = 150  # HAProxy carries a few more
NOTE_AGAIN_SECONDS = 60.0
# A program has no page that waits: its want is over when it has not asked for so long.
PROGRAM_SECONDS = 120.0
FRESH_SECONDS = 5.0
STOPPED_REMEDY = "what a person stopped, a person starts: see workspace.status"
# What people reach, and wait for.
AWAITED = tuple(route.name for route in ROUTES.values() if route.awaited and not route.for_programs)

Places = dict[str, tuple[str, int]]  # route -> where it listens


@dataclass
class Want:
    """A session's wish that its desktop runs."""

    desktop: str
    since: float
    last: float
    heard: bool = False  # whether the host has read it
    has_page: bool = True


class Awaiting:
    """The desktops that people wait for; `awaited_changed` is called when these are others."""

    def __init__(
        self,
        settings: Settings,
        note: Note,
        awaited_changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._note = note
        self._awaited_changed = awaited_changed
        self._clock = clock
        self._wants: dict[str, Want] = {}  # by session, while a page of it waits or it asks
        self._noted: dict[str, float] = {}  # session -> when its want was written down
        self._pages = Pages(PAGES_PER_SESSION, PAGES, self._waited_for)
        self._stages = Stages(clock)
        self._waking: dict[str, str] = {}  # desktop -> what its host made of the wants, while there are some
        self._starts: dict[str, float] = {}  # desktop -> since when its host starts it for who wants it
        self._put_off: dict[str, float] = {}  # desktop -> when somebody stopped what was started for a want
        self._took: dict[str, int] = {}  # desktop -> seconds from a want to an answer, the last time

    def want(self, session: Session) -> None:
        """Note that this desktop is wanted to run; raises `GatewayError` if the session may not want that.

        A person wants it while a page waits, a program for as long as it asks.
        """
        is_program = session.mode == AGENT
        if session.mode != "drive" and not (is_program and set(WORKING) & set(session.scopes)):
            reason = "may only look on: it starts nothing"
            raise Refusal(HTTPStatus.FORBIDDEN, "mode", reason, "ask who gave you the link", session.mode)
        if not is_program and not self._pages.of(session.id):
            raise Refusal(HTTPStatus.CONFLICT, "pages", "no page of this session waits", "open the desktop first")
        now = self._clock()
        if is_program and now - self._put_off.get(session.desktop, -PROGRAM_SECONDS) < PROGRAM_SECONDS:
            reason = "was stopped after it had been started for who wanted it: no program wakes it now"
            raise Refusal(HTTPStatus.CONFLICT, "off", reason, STOPPED_REMEDY, session.desktop)
        if now - self._noted.get(session.id, -NOTE_AGAIN_SECONDS) >= NOTE_AGAIN_SECONDS:
            # Before anything listens to it.
            self._note("want", session, result="wanted")
            self._noted[session.id] = now
        if want := self._wants.get(session.id):
            want.last = now
            return
        if not self._of(session.desktop):
            self._waking.pop(session.desktop, None)
            self._starts.pop(session.desktop, None)
        self._wants[session.id] = Want(session.desktop, now, now, has_page=not is_program)
        self._pages.tell({session.desktop})

    def is_fresh(self, id: str) -> bool:
        """Whether a session has just asked for its desktop: that it does so again is no news."""
        want = self._wants.get(id)
        return want is not None and self._clock() - want.last < FRESH_SECONDS

    def wanted(self, id: str) -> int | None:
        """For how many seconds a session has not asked for its desktop again; none if it does not wait for it."""
        want = self._wants.get(id)
        return None if want is None else int(self._clock() - want.last)

    def hear(self) -> None:
        """The host has read what is wanted."""
        for want in self._wants.values():
            if not want.heard:
                want.heard = True
                self._pages.tell({want.desktop})

    def tell(self, desktop: str, waking: str) -> dict[str, bool]:
        """Let those who wait for a desktop know what its host made of it; whether anybody wants it still."""
        if waking not in WAKINGS:
            raise GatewayError("state", waking, "is not known", f"use one of: {', '.join(WAKINGS)}")
        wanted, news = bool(self._of(desktop)), False
        if waking == STARTS:
            self._starts[desktop] = self._clock()
            self._put_off.pop(desktop, None)
        # For who only looks on, too, and where nobody wants it any more: it boots.
        if waking == STARTS and desktop in {ours.name for ours in self._settings.desktops}:
            news = self._stages.hear(desktop, Stage.BOOTING, self._clock())
        if wanted and self._waking.get(desktop) != waking:
            self._waking[desktop] = waking
            news = True
        if news:
            self._pages.tell({desktop})
        return {"wanted": wanted}

    def hear_stages(self, stages: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
        """Let those who wait know where their host has desktops; those of which that is news.

        Of desktops that are not set up here yet, or not any more, nobody wants to know.
        """
        ours = {desktop.name for desktop in self._settings.desktops} & stages.keys()
        news: list[str] = []
        try:
            for name in sorted(ours):
                if self._stages.hear(name, stages[name]["state"], stages[name]["at"]):
                    news.append(name)
                    self._take_back(name, stages[name]["state"], stages[name]["at"])
        finally:
            # Of what was heard before a wrong word, too: the next time it is no news.
            self._pages.tell(news)
        return {"news": news}

    def _take_back(self, desktop: str, stage: str, at: float) -> None:
        """End the wants of programs for a desktop that somebody stopped after it had been started for them.

        Its host stops nothing by itself that is wanted, and starts nothing that a person stopped.
        """
        if stage == Stage.BOOTING:
            self._put_off.pop(desktop, None)
        wants = [id for id, want in self._wants.items() if want.desktop == desktop and not want.has_page]
        if stage != Stage.STOPPED or not wants or at < self._starts.get(desktop, math.inf):
            return
        self._put_off[desktop] = self._clock()
        for id in wants:
            del self._wants[id]

    def awaited(self) -> dict[str, Places]:
        """The desktops that a page waits for, and where their routes listen."""
        waiting = self._pages.desktops()
        return {
            desktop.name: {name: (desktop.address, desktop.routes[name]) for name in AWAITED if name in desktop.routes}
            for desktop in self._settings.desktops
            if desktop.name in waiting
        }

    def looked(self, desktop: str, answering: Mapping[str, bool]) -> None:
        """Take in which routes of a desktop answer; when all do, nobody has to want it any more."""
        places = self.awaited().get(desktop)
        if places is None:
            return
        found = {name: answering.get(name) is True for name in places}
        if all(found.values()):
            self._note_start(desktop)
        if self._stages.looked(desktop, found):
            self._pages.tell({desktop})

    def facts(self, session: Session) -> dict[str, Any]:
        """How far a session's desktop is, as its page shows it."""
        wants = self._of(session.desktop)
        return {
            # Of the routes None until somebody has looked.
            **self._stages.of(session.desktop, session.routes),
            "wanted": bool(wants),
            "heard": any(want.heard for want in wants),
            # Of this want alone: what came of an earlier one is over.
            "waking": self._waking.get(session.desktop) if wants else None,
            "usual_seconds": self._took.get(session.desktop),
        }

    def join(self, session: Session) -> Page:
        """Take in a page that waits; raises `GatewayError` for a program, and if there are too many."""
        if session.mode not in ("drive", "view"):
            raise Refusal(HTTPStatus.FORBIDDEN, "mode", "has no page that waits", "ask the routes", session.mode)
        return self._pages.join(session, "wait for a desktop already", "close one, or load this page again in a minute")

    def leave(self, page: Page) -> None:
        """A page waits no longer: its desktop answers it, or nobody looks any more."""
        id, desktop = page.session.id, page.session.desktop
        if self._pages.of(id) == [page] and id in self._wants:
            want = self._wants.pop(id)
            if self._stages.answers(desktop):
                self._took[desktop] = int(self._clock() - want.since)
            self._pages.tell({desktop})
        self._pages.leave(page)

    def sweep(self, alive: Collection[str]) -> None:
        """Let the pages of sessions that are over end at once, and the wants of programs that ask no more."""
        self._put_off = {name: at for name, at in self._put_off.items() if self._clock() - at < PROGRAM_SECONDS}
        self._noted = {id: at for id, at in self._noted.items() if id in alive}
        over = {id: want.desktop for id, want in self._wants.items() if not want.has_page and self._is_over(id, alive)}
        self._wants = {id: want for id, want in self._wants.items() if id not in over}
        self._pages.tell(set(over.values()))
        self._pages.sweep(alive)

    def _is_over(self, id: str, alive: Collection[str]) -> bool:
        return id not in alive or self._clock() - self._wants[id].last > PROGRAM_SECONDS

    def _waited_for(self) -> None:
        self._stages.look_away(self._pages.desktops())
        self._awaited_changed()

    def _note_start(self, desktop: str) -> None:
        if wants := self._of(desktop):
            self._took[desktop] = int(self._clock() - min(want.since for want in wants))
        self._wants = {id: want for id, want in self._wants.items() if want.desktop != desktop}

    def _of(self, desktop: str) -> list[Want]:
        return [want for want in self._wants.values() if want.desktop == desktop]
