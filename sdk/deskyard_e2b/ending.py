"""The end of a sandbox's time: what the host wants is done then, or as soon as a key that may is heard again."""

import asyncio
import contextlib
import functools
import logging
from dataclasses import dataclass, field

from deskyard_sdk import DesktopError

from deskyard_e2b.keeping import Kept
from deskyard_e2b.keyring import Caller, Keyring
from deskyard_e2b.naming import machine_of
from deskyard_e2b.sandboxes import Sandboxes

STOP, DESTROY, NOTHING = "stop", "destroy", "nothing"
ENDINGS = (STOP, DESTROY, NOTHING)
# After what failed, and the longest that the clock is not looked at: it may be set.
AGAIN_SECONDS, LONGEST_SECONDS = 60.0, 3600.0
log = logging.getLogger(__name__)


@dataclass
class Ending:
    """Ends sandboxes whose time is over."""

    sandboxes: Sandboxes
    keyring: Keyring
    action: str = STOP
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _working: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _again: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """Look again: an end moved, or a key was heard."""
        self._changed.set()

    async def run(self) -> None:
        """End them until cancelled."""
        try:
            while self.action != NOTHING:
                self._changed.clear()
                seconds = self._begin()
                # `wait_for` of Python 3.11 may lose the cancellation that ends this.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
        finally:
            for task in self._working.values():
                task.cancel()

    def _begin(self) -> float:
        """Begin with all that are due; how long it is until the next may be."""
        now, wait = self.sandboxes.clock(), LONGEST_SECONDS
        for sandbox in self.sandboxes.keeping.ending():
            due = max(sandbox.ends or 0, self._again.get(sandbox.id, 0))
            if self.sandboxes.is_making(sandbox.id):
                # Its time begins when it is there; that is told.
                continue
            if due > now:
                wait = min(wait, due - now)
            elif sandbox.id not in self._working and (caller := self._caller(sandbox)):
                task = asyncio.create_task(self._end(caller, sandbox))
                self._working[sandbox.id] = task
                task.add_done_callback(functools.partial(self._over, sandbox.id))
        return wait

    def _over(self, id: str, task: asyncio.Task[None]) -> None:
        del self._working[id]
        if not task.cancelled() and (error := task.exception()):
            # Whatever it was: Mission Control is not asked again and again.
            self._again[id] = self.sandboxes.clock() + AGAIN_SECONDS
            is_fault = not isinstance(error, DesktopError)
            log.warning("%s was not ended at its time: %s", id, error, exc_info=error if is_fault else None)
        self.look()

    def _caller(self, sandbox: Kept) -> Caller | None:
        """Who may end it: who made it, or else who was given a token for it; nobody before such a key is heard."""
        owners = [sandbox.owner, *self.sandboxes.keeping.owners(sandbox.id)]
        return next((caller for owner in owners if (caller := self.keyring.known(owner))), None)

    async def _end(self, caller: Caller, sandbox: Kept) -> None:
        self._again.pop(sandbox.id, None)
        try:
            is_task = machine_of(sandbox.id) is not None
            is_destroyed = self.action == DESTROY and not sandbox.pauses
            # A person may have paused it: as at E2B, no time of it runs then.
            if is_task or (is_destroyed and not await self.sandboxes.rests(caller, sandbox.id)):
                try:
                    await self.sandboxes.kill(caller, sandbox.id)
                    return
                except DesktopError as error:
                    if error.status != 403 or is_task:
                        raise
                    log.warning("%s is stopped, since the key may not destroy it", sandbox.id)
            await self.sandboxes.rest(caller, sandbox)
        except DesktopError as error:
            if error.status == 401:
                self.keyring.forget(caller.owner)
            if error.status != 404 or not await self.sandboxes.forget_gone(caller, sandbox.id):
                raise
