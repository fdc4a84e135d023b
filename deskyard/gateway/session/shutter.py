"""Desktops that are shut for programs: while a person wants it, HAProxy lets none see or do anything there.

What is wanted is in the records of the session service. Each worker is asked what it holds and brought in line, also
one that just starts or that did not answer before, so that nothing is left shut, or open, by a worker that missed a
word.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

ROUNDS = 5  # a reload starts a worker or two while the others are told


class Doors(Protocol):
    """The commands to a running HAProxy: list its workers, and shut or open desktops for programs."""

    async def workers(self) -> list[int]:
        """The workers."""

    async def shut(self, pid: int, listed: Path) -> set[str] | None:
        """The desktops that are shut by this list of its; nothing if it does not answer."""

    async def hide(self, pid: int, listed: Path, desktop: str) -> bool:
        """Shut a desktop for programs; false if it must be asked again."""

    async def show(self, pid: int, listed: Path, desktop: str) -> bool:
        """Open it again, as far as this list goes; false if it must be asked again."""


class Shutter:
    """Brings a list of the workers in line with what is `wanted`: a list for each reason to shut a desktop."""

    def __init__(self, doors: Doors, listed: Path, wanted: Callable[[], set[str]]) -> None:
        self._doors = doors
        self._listed = listed
        self._wanted = wanted
        self._workers: list[int] = []
        self._held: dict[int, frozenset[str]] = {}  # worker -> what it was brought to, sockets and all
        self._turn = asyncio.Lock()

    def is_on(self, desktop: str) -> bool:
        """Whether no program comes to this desktop: it is wanted, and every worker has taken it."""
        taken = [desktop in self._held.get(pid, ()) for pid in self._workers]
        return desktop in self._wanted() and bool(taken) and all(taken)

    async def settle(self) -> bool:
        """Bring all workers in line; false if one did not take it, and must be asked again."""
        async with self._turn:
            for _ in range(ROUNDS):
                self._workers = workers = await self._doors.workers()
                wanted = frozenset(self._wanted())
                self._held = {pid: held for pid, held in self._held.items() if pid in workers}
                behind = [pid for pid in workers if self._held.get(pid) != wanted]
                if not behind:
                    return True
                if not await self._bring(behind, wanted):
                    return False
            return False

    async def _bring(self, behind: Sequence[int], wanted: frozenset[str]) -> bool:
        done = await asyncio.gather(*(self._bring_one(pid, wanted) for pid in behind))
        self._held |= {pid: wanted for pid, good in zip(behind, done, strict=True) if good}
        return all(done)

    async def _bring_one(self, pid: int, wanted: frozenset[str]) -> bool:
        there = await self._doors.shut(pid, self._listed)
        if there is None:
            return False
        # Also where it is shut already: what was open before may be open still.
        new = wanted - self._held.get(pid, frozenset())
        hidden = await asyncio.gather(*(self._doors.hide(pid, self._listed, desktop) for desktop in sorted(new)))
        shown = await asyncio.gather(
            *(self._doors.show(pid, self._listed, desktop) for desktop in sorted(there - wanted))
        )
        return all(hidden) and all(shown)
