"""The power of sandboxes: paused with the memory where that can be kept, and gone on with by what they were."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import cast
from weakref import WeakValueDictionary

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import DesktopState

from deskyard_e2b.answers import PAUSED
from deskyard_e2b.keyring import Caller

STOPPED, READY = "stopped", "ready"
# Of Mission Control's own failures, which say nothing of a machine: it did not answer, or the operation has not ended.
OURS = ("url", "operation")
log = logging.getLogger(__name__)


@dataclass
class Power:
    """Pauses and stops desktops and lets them go on; what was done counts at once, though it is seen a moment later."""

    # By desktop: since when it was seen as it was before, and what it was brought to.
    _brought: dict[str, tuple[str, str]] = field(default_factory=dict)
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def turn(self, sandbox: str) -> asyncio.Lock:
        """Whoever pauses a sandbox or goes on with it does so alone: until its memory is written it is seen to run."""
        return self._turns.setdefault(sandbox, asyncio.Lock())

    def seen(self, desktop: DesktopState) -> DesktopState:
        """The desktop as it is by now: nothing was seen of it since it was moved here, or else what was seen counts."""
        before, state = self._brought.get(desktop["id"], ("", ""))
        if before == desktop["stateAt"]:
            return cast(DesktopState, {**desktop, "state": state})
        self._brought.pop(desktop["id"], None)
        return desktop

    def forget(self, desktop: str) -> None:
        """Forget a desktop that is gone."""
        self._brought.pop(desktop, None)

    async def pause(self, caller: Caller, desktop: DesktopState, memory: bool | None = None) -> bool:
        """Pause a desktop; whether its memory is kept.

        Where it cannot be, the desktop is stopped, if who pauses does not say that memory is wanted.
        """
        keeps = memory is not False and await self._keeps_memory(caller, desktop["id"], is_wanted=memory is True)
        if not keeps:
            await caller.mission.wait(await caller.mission.stop(desktop["id"]))
        self._note(desktop, PAUSED if keeps else STOPPED)
        return keeps

    async def go_on(self, caller: Caller, desktop: DesktopState, *, memory: bool = True) -> None:
        """Let a desktop that rests run, from its memory if it has any; without `memory` it boots, and that is lost."""
        mission, id = caller.mission, desktop["id"]
        if desktop["state"] != PAUSED:
            work = await mission.start(id)
        else:
            work = await (mission.resume(id) if memory else mission.restart(id, force=True))
        await mission.wait(work)
        self._note(desktop, READY)

    async def _keeps_memory(self, caller: Caller, id: str, *, is_wanted: bool) -> bool:
        work = await caller.mission.pause(id, to_disk=True)
        try:
            await caller.mission.wait(work)
        except DesktopError as error:
            if is_wanted or error.status or error.field in OURS:
                raise
            log.warning("%s is stopped, since its memory cannot be kept: %s", id, error)
            return False
        return True

    def _note(self, desktop: DesktopState, state: str) -> None:
        self._brought[desktop["id"]] = (desktop["stateAt"], state)
