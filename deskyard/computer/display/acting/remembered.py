"""Batches by the ids that their sessions gave them, so that a repeat does nothing twice."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from deskyard.computer.answers.screen import Result
from deskyard.computer.claims import claim
from deskyard.computer.display.acting.audience import Audience
from deskyard.computer.display.events import Armed
from deskyard.computer.problem import Problem

# What one session sends pushes out nothing of another's.
MOST_IDS = 100
MOST_SESSIONS = 32


@dataclass
class Outcome:
    """The outcome of a batch: a result for each action done, and the problem that ended it early, if any."""

    results: list[Result] = field(default_factory=list)
    problem: Problem | None = None
    notes: list[dict[str, Any]] = field(default_factory=list)  # for the audit, until an answer claims them

    def claim(self) -> None:
        """Claim what was done in the answer in hand; the next one claims nothing."""
        notes, self.notes = self.notes, []
        for note in notes:
            claim(note)


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch under way or done: the hash of its actions, who waits for its outcome, and the wait that follows it."""

    digest: str
    audience: Audience
    doing: "asyncio.Future[Outcome]"
    armed: Armed | None = None

    def armed_for(self, asked: Armed | None) -> Armed | None:
        """The wait of an answer: who repeats a batch waits from before its actions, as who sent it first."""
        return self.armed if asked and self.armed and self.armed.wait == asked.wait else asked

    async def outcome(self) -> Outcome:
        """Its outcome; raises `Problem` where nothing of it was done."""
        return await asyncio.shield(self.doing)


class Remembered:
    """The newest batches of each session, and of the sessions those that sent one last."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[str, Batch]] = OrderedDict()

    def find(self, session: str, id: str) -> Batch | None:
        """The batch of this id, if it is not forgotten."""
        return self._sessions.get(session, OrderedDict()).get(id)

    def add(self, session: str, id: str, batch: Batch) -> None:
        """Remember a batch.

        None that is under way is forgotten by that: fewer wait for the hands at a time than are remembered.
        """
        batches = self._sessions.setdefault(session, OrderedDict())
        self._sessions.move_to_end(session)
        batches[id] = batch
        if len(batches) > MOST_IDS:
            batches.popitem(last=False)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)

    def forget(self, session: str, id: str) -> None:
        """Let the id be used again."""
        self._sessions.get(session, OrderedDict()).pop(id, None)
