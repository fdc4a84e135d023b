"""Tells desktops to halt what their agents run, or to let it go on, again and again until that is lifted or done.

It is here, since the session service reaches nobody but HAProxy: the filter connects to desktops all day. A stop is
said again while it stands, so that it holds for a desktop that was started anew; what an agent with root does against
it, the door does not depend on.
"""

import asyncio
import json
from collections.abc import Callable

from deskyard.gateway.view.criers import Criers
from deskyard.wire.computer import GO, STOP

ANSWER_SECONDS = 30.0  # a program starts there for it
AGAIN_SECONDS = 2.0  # at first, then twice as long each time
STANDS_SECONDS = 20.0  # it was done; a desktop that boots has forgotten it
MOST_ANSWER = 1024

Place = tuple[str, int, bool]
Say = Callable[[str, bool | None], None]


class Halters:
    """Tells desktops to stop their agents or let them go on; `say` hears whether an agent stands still."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._pauses: dict[str, tuple[Place, float]] = {}
        self._criers: Criers[Place] = Criers(self._tell)
        self.send = self._criers.send
        self.tasks = self._criers.tasks

    async def _tell(self, desktop: str, place: Place | None) -> float | None:
        before, pause = self._pauses.pop(desktop, (None, AGAIN_SECONDS))
        if place is None:
            return None
        address, port, stops = place
        still = await ask(address, port, STOP if stops else GO)
        if self._criers.word(desktop) == place:
            self._say(desktop, still)
        if still is stops:
            return STANDS_SECONDS
        # One that is off, or of before, does not answer for days.
        pause = min(pause if before == place else AGAIN_SECONDS, STANDS_SECONDS)
        self._pauses[desktop] = (place, pause * 2)
        return pause


async def ask(address: str, port: int, word: str) -> bool | None:
    """Say a word to a desktop; whether its agent stands still, None for no answer. It holds up nobody else."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(address, port, limit=MOST_ANSWER)
            try:
                writer.write(json.dumps({"agent": word}).encode() + b"\n")
                answer = json.loads(await reader.readline())
            finally:
                writer.close()
    except (OSError, ValueError, TimeoutError):
        return None
    still = answer.get("still") if isinstance(answer, dict) else None
    return still if isinstance(still, bool) else None
