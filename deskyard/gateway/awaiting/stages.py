"""How far desktops are, and since when: of a machine its host tells, whether its routes answer is seen from here.

Neither knows all: a machine that runs may not answer yet, and one that answers may be about to stop.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import GatewayError
from deskyard.wire.stages import OF_HOST, Stage

# As long as a guest may take to shut down. Routes that answer for longer say that the host's word is out of date.
HOLD_SECONDS = 180.0
# A look that began before the host's word came may end after it.
LATE_SECONDS = 6.0


@dataclass
class _Word:
    """The host's word of a machine: since when it is so, when it came, and whether all routes fell silent since."""

    stage: Stage
    since: float
    came: float
    fell_silent: bool = False


class Stages:
    """The host's words of the machines of a gateway's desktops, and what was seen of their routes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._words: dict[str, _Word] = {}
        # By desktop: since when each of its routes answers, None of one that does not.
        self._routes: dict[str, dict[str, float | None]] = {}

    def hear(self, desktop: str, stage: str, since: float) -> bool:
        """Take in the host's word of a machine; whether it is news. Raises `GatewayError` for what is none."""
        if stage not in OF_HOST:
            raise GatewayError("state", stage, "is not the host's to say", f"use one of: {', '.join(OF_HOST)}")
        if isinstance(since, bool) or not isinstance(since, (int, float)) or not 0 < since < float("inf"):
            raise GatewayError("at", since, "is no moment", "give it as Unix time")
        now, before = self._clock(), self._words.get(desktop)
        # It is told again and again; a machine that starts anew boots anew.
        if before is not None and before.stage == stage and (stage != Stage.BOOTING or since <= before.since):
            return False
        # Another machine's clock may be ahead of this one's.
        silent = stage == Stage.BOOTING and not self.answers(desktop)
        self._words[desktop] = _Word(Stage(stage), min(since, now), now, silent)
        return True

    def looked(self, desktop: str, found: Mapping[str, bool]) -> bool:
        """Take in which routes of a desktop answer; whether they are others than before."""
        now, before = self._clock(), self._routes.get(desktop)
        times = {name: (before or {}).get(name) or now if answers else None for name, answers in found.items()}
        self._routes[desktop] = times
        if word := self._words.get(desktop):
            word.fell_silent = word.fell_silent or not any(found.values())
            # What was to boot has: when it falls silent, something else happened to it.
            if word.stage is Stage.BOOTING and all(found.values()) and self._is_over(word, LATE_SECONDS):
                del self._words[desktop]
        return times != before

    def look_away(self, waiting: Collection[str]) -> None:
        """Forget what was seen of all but these: that they answered some time ago says nothing of today."""
        self._routes = {name: found for name, found in self._routes.items() if name in waiting}

    def answers(self, desktop: str) -> bool:
        """Whether any route of a desktop answered the last look."""
        return any(self._routes.get(desktop, {}).values())

    def of(self, desktop: str, routes: Collection[str]) -> dict[str, Any]:
        """Where a desktop is, since when, and the same of each of these routes; None is what nobody knows."""
        found = self._routes.get(desktop)
        stage, since = self._whole(desktop, found or {})
        whole = _plain(stage, since)
        if found is None:
            return {**whole, "routes": None}
        seen = {name: found[name] for name in routes if name in found}
        each = {name: _plain(Stage.READY, answers) if answers else whole for name, answers in seen.items()}
        return {**whole, "routes": each}

    def _whole(self, desktop: str, found: Mapping[str, float | None]) -> tuple[Stage | None, float | None]:
        answering = [since for since in found.values() if since is not None]
        word = self._words.get(desktop)
        if word is not None and (not answering or self._holds(word)):
            return word.stage, word.since
        if not answering:
            return None, None
        if len(answering) == len(found):
            return Stage.READY, max(answering)
        return Stage.BOOTING, min(answering) if word is None or word.stage is not Stage.BOOTING else word.since

    def _holds(self, word: _Word) -> bool:
        """Whether the host's word counts although routes answer: they may do so until their machine is off."""
        return word.stage is not Stage.BOOTING and not self._is_over(word, HOLD_SECONDS)

    def _is_over(self, word: _Word, seconds: float) -> bool:
        """Whether answers are newer than the host's word: those of before ended, or had so much time to."""
        return word.fell_silent or self._clock() - word.came > seconds


def _plain(stage: Stage | None, since: float | None) -> dict[str, Any]:
    return {"state": stage, "since": None if since is None else int(since)}
