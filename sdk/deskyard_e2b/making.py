"""The making of sandboxes: desktops that stay, or for a task, with the variables that their clients give them."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import Operation
from deskyard_sdk.mission.client import ENDED

from deskyard_e2b import environment
from deskyard_e2b.doors import Ways
from deskyard_e2b.keeping import Keeping, Kept, fresh_nonce
from deskyard_e2b.keyring import Caller
from deskyard_e2b.naming import Choice, desktop_id, sandbox_of
from deskyard_e2b.wishes import Wanted

Clock = Callable[[], float]
# Looks for a sandbox; raises `DesktopError` with 404 where none is left.
Looks = Callable[[Caller, str], Awaitable[Any]]


async def making_of(caller: Caller, desktop: str) -> Operation | None:
    """The operation that makes a desktop, as long as it goes on."""
    async for work in caller.mission.operations(desktop=desktop, kind="desktop.create"):
        return None if work["state"] in ENDED else work
    return None


@dataclass(frozen=True)
class Making:
    """Makes sandboxes, and notes them."""

    keeping: Keeping
    ways: Ways
    looks: Looks
    default: Choice = field(default_factory=Choice)
    clock: Clock = time.time

    async def for_task(self, caller: Caller, workspace: str, tier: str, wanted: Wanted, wish: str) -> Kept:
        """A desktop for a task; the same wish is the same operation of Mission Control, also after a restart."""
        most = self.default.task_seconds or 0
        if wanted.seconds > most:
            reason = "is longer than a desktop for a task is given for here"
            raise DesktopError("timeout", str(wanted.seconds), reason, f"give at most {most} seconds", 400)
        if wanted.pauses:
            reason = "cannot be had: a desktop for a task is never stopped"
            raise DesktopError("autoPause", "", reason, "leave it out: its end is that of its time", 400)
        work = await caller.mission.begin_task(workspace, tier, self.default.image, f"{most}s", wish)
        given = (await caller.mission.wait(work))["result"] or {}
        id = sandbox_of(given["desktop"], given["machine"])
        kept = self.keeping.find(id)
        if kept is None or not kept.made:
            # What was given may have ended since: the answer to the same wish is the same.
            await self._require_left(caller, id)
            now, has = self.clock(), bool(wanted.environment)
            ends = now + wanted.seconds
            kept = Kept(
                *(id, caller.owner, fresh_nonce(), True, wanted.template, wanted.metadata, now, ends), environment=has
            )
            self.keeping.add(kept)
        if wanted.environment:
            async with self.ways.door(id, given["desktop"], caller) as door:
                await environment.write(door, wanted.environment)
        return kept

    async def _require_left(self, caller: Caller, id: str) -> None:
        try:
            await self.looks(caller, id)
        except DesktopError as error:
            if error.status != 404:
                raise
            reason = f"was that of {id}, which is gone"
            raise DesktopError("Idempotency-Key", "", reason, "give another", 409) from error

    async def to_keep(self, caller: Caller, id: str, tier: str, wanted: Wanted, repeatable: bool) -> Kept:
        """A desktop that stays; where it is `repeatable`, the same wish finds the one that it was given before."""
        desktop = desktop_id(id) or ""
        kept = self.keeping.find(id)
        # One that was noted and never came up is brought up now.
        if kept is None or not kept.started or not await self._is_there(caller, desktop):
            now = self.clock()
            has = bool(wanted.environment)
            kept = Kept(
                id,
                caller.owner,
                fresh_nonce(),
                True,
                wanted.template,
                wanted.metadata,
                0.0,
                now + wanted.seconds,
                pauses=wanted.pauses,
                environment=has,
                memory=wanted.memory,
            )
            self.keeping.add(kept)
            await self._bring_up(caller, id, tier, repeatable)
            now = self.clock()
            kept = replace(kept, started=now, ends=now + wanted.seconds)
            self.keeping.start(id, now, now + wanted.seconds)
        if wanted.environment:
            async with self.ways.door(id, desktop, caller) as door:
                await environment.write(door, wanted.environment)
        return kept

    async def _bring_up(self, caller: Caller, id: str, tier: str, repeatable: bool) -> None:
        """Have the desktop made; what was begun is made to its end, also where that cannot be followed, and ends."""
        desktop = desktop_id(id) or ""
        workspace, _, name = desktop.partition(".")
        try:
            work = await caller.mission.create(workspace, name, tier, self.default.image)
        except DesktopError as error:
            # Only this key's same wish has this name: an earlier try, of which this program knows nothing, made it.
            if not (repeatable and error.status == HTTPStatus.CONFLICT and error.field == "name"):
                if HTTPStatus.BAD_REQUEST <= error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    # Nothing was begun.
                    self.keeping.forget(id)
                raise
            under_way = await making_of(caller, desktop)
            if under_way is None and not await self._is_there(caller, desktop):
                raise
            work = under_way or await caller.mission.start(desktop)
        await caller.mission.wait(work)

    async def _is_there(self, caller: Caller, desktop: str) -> bool:
        """Whether a desktop is there, by now: what is done with it is waited for."""
        try:
            found = await caller.mission.desktop(desktop)
        except DesktopError as error:
            if error.status == 404:
                return False
            raise
        if found["operation"]:
            await caller.mission.wait(found["operation"])
        return True
