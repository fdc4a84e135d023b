"""Sandboxes as desktops: made, found, stopped and destroyed by Mission Control, with the caller's own key."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import DesktopState, Operation, Workspace

from deskyard_e2b import answers
from deskyard_e2b.answers import PAUSED, unknown
from deskyard_e2b.doors import Ways
from deskyard_e2b.keeping import Keeping, Kept, fresh_nonce, token_for
from deskyard_e2b.keyring import Caller
from deskyard_e2b.making import Clock, Making, making_of
from deskyard_e2b.naming import NOWHERE, Choice, chosen, desktop_id, fresh_name, machine_of, sandbox_id, sandbox_of
from deskyard_e2b.power import Power
from deskyard_e2b.stream import Streams
from deskyard_e2b.wishes import Wanted

# What Mission Control says of a desktop whose last backup cannot be made.
LAST_BACKUP = "last backup"
# How long a desktop has to answer before a strict pause.
ANSWER_SECONDS = 20.0
# How long one has from its end on that was paused then, and that somebody let go on without a client since; as often
# it is looked whether somebody did.
ANEW_SECONDS = 3600.0


@dataclass
class Sandboxes:
    """Makes, lists, pauses and ends sandboxes; `changed` is called when the end of one moves."""

    keeping: Keeping
    ways: Ways
    default: Choice = field(default_factory=Choice)
    kills: bool = False
    domain: str = NOWHERE
    changed: Callable[[], None] = lambda: None
    clock: Clock = time.time
    power: Power = field(default_factory=Power)
    streams: Streams = field(default_factory=Streams)
    _making: dict[str, asyncio.Task[Kept]] = field(default_factory=dict)
    _maker: Making = field(init=False)

    def __post_init__(self) -> None:
        self._maker = Making(self.keeping, self.ways, self._found, self.default, lambda: self.clock())

    def is_making(self, id: str) -> bool:
        """Whether a sandbox is on its way."""
        return id in self._making

    async def create(self, caller: Caller, wanted: Wanted, idempotency: str | None) -> dict[str, Any]:
        """Make a sandbox, and answer when it can be used; the same wish again finds the same one."""
        found = await self._workspaces(caller)
        workspace, tier = chosen(wanted.template, self.default, found)
        tiers = [offered["name"] for offered in found[workspace]["tiers"]]
        # A workspace that was not read yet has none to compare with: Mission Control knows.
        if tiers and tier not in tiers:
            raise DesktopError("template", wanted.template, f"means no tier '{tier}'", f"give {', '.join(tiers)}", 404)
        name = fresh_name(caller.owner, idempotency)
        id = sandbox_id(workspace, name)
        if id not in self._making:
            # One for a task has its own name as soon as it is there; until then it is known by that of the wish.
            making = asyncio.create_task(
                self._maker.to_keep(caller, id, tier, wanted, idempotency is not None)
                if self.default.task_seconds is None
                else self._maker.for_task(caller, workspace, tier, wanted, name)
            )
            self._making[id] = making
            making.add_done_callback(lambda task: self._made(id, task))
        # Whoever asked may leave: it is made to the end all the same, and ends with its time.
        kept = await asyncio.shield(self._making[id])
        return answers.created(kept, self._token(caller, kept), self.domain)

    async def connect(
        self, caller: Caller, id: str, seconds: int, *, memory: bool = True
    ) -> tuple[bool, dict[str, Any]]:
        """A sandbox for this key, and whether it had to go on for that; its time is only made longer.

        Without `memory` one that is paused boots, and the memory that was kept is lost.
        """
        async with self.power.turn(id):
            return await self._connected(caller, id, seconds, memory)

    async def _connected(self, caller: Caller, id: str, seconds: int, memory: bool) -> tuple[bool, dict[str, Any]]:
        desktop, kept = await self._found(caller, id)
        if kept is None:
            template = f"{desktop['workspaceId']}/{desktop['tier']}"
            kept = Kept(id, caller.owner, fresh_nonce(), False, template, {}, self.clock(), None)
            self.keeping.add(kept)
        is_paused = answers.state(desktop) == PAUSED
        if is_paused:
            await self.power.go_on(caller, desktop, memory=memory)
            if desktop["state"] != PAUSED or not memory:
                # It booted.
                self.streams.end(id)
        if kept.made:
            ends = min(self.clock() + seconds, answers.longest(desktop))
            if kept.ends is not None and not (is_paused or kept.ended or kept.rests):
                ends = max(ends, kept.ends)
            self._last_until(id, ends)
        return is_paused, answers.created(kept, self._token(caller, kept), self.domain)

    async def detail(self, caller: Caller, id: str) -> dict[str, Any]:
        """The description of a sandbox."""
        desktop, kept = await self._found(caller, id)
        workspace = await caller.mission.workspace(desktop["workspaceId"])
        return answers.detailed(desktop, kept, _tier(workspace, desktop), self.kills)

    async def all(self, caller: Caller) -> list[dict[str, Any]]:
        """All sandboxes that the key sees; what is not there any more is forgotten."""
        workspaces, kept = await self._workspaces(caller), self.keeping.all()
        found, ids = [], set()
        async for desktop in caller.mission.desktops():
            id = sandbox_of(desktop["id"], desktop.get("machine"))
            desktop = self.power.seen(desktop)
            ids.add(id)
            if not answers.is_over(desktop) and (id not in kept or not kept[id].killed):
                workspace = workspaces.get(desktop["workspaceId"])
                tier = _tier(workspace, desktop) if workspace else {}
                found.append(answers.listed(desktop, kept.get(id), tier))
        for id, sandbox in kept.items():
            if sandbox.owner == caller.owner and id not in ids and not sandbox.killed:
                await self.forget_gone(caller, id)
        return found

    async def forget_gone(self, caller: Caller, id: str) -> bool:
        """Forget a sandbox that is gone, and say whether it is; one that Mission Control still makes is not."""
        desktop = desktop_id(id) or ""
        if id in self._making or await making_of(caller, desktop):
            return False
        try:
            found = await caller.mission.desktop(desktop)
        except DesktopError as error:
            if error.status != 404:
                raise
        else:
            # It has come meanwhile.
            if found.get("machine") == machine_of(id):
                return False
        self.keeping.forget(id)
        await self._left(id, desktop)
        return True

    async def pause(self, caller: Caller, id: str, *, memory: bool | None = None, strict: bool = False) -> bool:
        """Pause a sandbox; whether its memory is kept, or its files alone. A `strict` pause is of one that answers."""
        async with self.power.turn(id):
            return await self._pause(caller, id, memory, strict)

    async def _pause(self, caller: Caller, id: str, memory: bool | None, strict: bool) -> bool:
        desktop, _ = await self._found(caller, id)
        if answers.is_task(desktop):
            reason, remedy = "is a desktop for a task, which is never stopped: it goes with its data", "kill() ends it"
            # To a 409 their clients say nothing: it is paused already.
            raise DesktopError("sandbox", id, reason, remedy, 400)
        if answers.state(desktop) == PAUSED:
            raise DesktopError("sandbox", id, "is paused already", "connect to it to go on", 409)
        if strict:
            await self._require_answering(caller, desktop, id)
        keeps = await self._halt(caller, desktop, id, memory)
        await self.ways.cut(id)
        self.keeping.end(id)
        return keeps

    async def rest(self, caller: Caller, sandbox: Kept) -> None:
        """Pause a sandbox whose time is over, where its client wanted that, and stop any other.

        One that is paused already is looked at again: a person may let it go on, and its time begins anew then.
        """
        async with self.power.turn(sandbox.id):
            latest = self.keeping.find(sandbox.id)
            # Who connected meanwhile finds it running for as long as that said.
            if latest is None or latest.ends != sandbox.ends:
                return
            desktop, _ = await self._found(caller, sandbox.id)
            is_paused = answers.state(desktop) == PAUSED
            later = self.clock() + ANEW_SECONDS
            if latest.rests and not is_paused:
                self.keeping.put_off(sandbox.id, later, rests=False)
                return
            if not is_paused:
                # Nobody is there who could be refused: where no memory can be kept, it is stopped.
                await self._halt(caller, desktop, sandbox.id, None if sandbox.pauses and sandbox.memory else False)
            await self.ways.cut(sandbox.id)
            if is_paused:
                self.keeping.put_off(sandbox.id, later, rests=True)
            else:
                self.keeping.end(sandbox.id)

    async def _halt(self, caller: Caller, desktop: DesktopState, id: str, memory: bool | None) -> bool:
        keeps = await self.power.pause(caller, desktop, memory)
        if not keeps:
            # It ended with all else there.
            self.streams.end(id)
        return keeps

    async def rests(self, caller: Caller, id: str) -> bool:
        """Whether no time of a sandbox runs: its memory is kept, or it was paused when its time was over."""
        desktop, kept = await self._found(caller, id, over=True)
        return desktop["state"] == PAUSED or (kept is not None and kept.rests)

    async def kill(self, caller: Caller, id: str) -> None:
        """Destroy a sandbox that was made here with all its data; what passes to it is cut at once."""
        desktop, kept = await self._found(caller, id, over=True)
        if kept is None or not kept.made:
            remedy = "destroy it in Mission Control, or by ./inv desktop.destroy; pause() stops it"
            raise DesktopError("sandbox", id, "is a desktop that was not made by Sandbox.create", remedy, 403)
        # Mission Control says whether the key may, before anything is cut.
        if answers.is_task(desktop):
            destroying = await caller.mission.release_task(desktop["id"], desktop["machine"])
        else:
            destroying = await caller.mission.destroy(desktop["id"])
        self.keeping.kill(id)
        await self.ways.cut(id)
        try:
            await self._wait_gone(caller, desktop, destroying)
        except BaseException:
            self.keeping.kill(id, False)
            raise
        self.keeping.forget(id)
        await self._left(id, desktop["id"])

    async def _left(self, id: str, desktop: str) -> None:
        """Give up what is open to a sandbox that is gone, and what is known of it."""
        await self.ways.cut(id)
        self.streams.forget(id)
        self.power.forget(desktop)

    async def _wait_gone(self, caller: Caller, desktop: DesktopState, destroying: Operation) -> None:
        try:
            await caller.mission.wait(destroying)
        except DesktopError as error:
            if answers.state(desktop) != PAUSED or error.field != LAST_BACKUP:
                raise
            # None is made of a memory, nor of one that is off and was never read: it is made as the desktop goes on.
            await self.power.go_on(caller, desktop)
            try:
                await caller.mission.wait(await caller.mission.destroy(desktop["id"]))
            except DesktopError:
                await self.power.pause(caller, desktop)
                raise

    async def last(self, caller: Caller, id: str, seconds: int, only_longer: bool = False) -> None:
        """Let a sandbox end so many seconds from now."""
        desktop, kept = await self._found(caller, id)
        if kept is None or not kept.made:
            remedy = "leave it; pause() stops it"
            raise DesktopError(
                "sandbox", id, "is a desktop that no timeout ends: Sandbox.create did not make it", remedy, 409
            )
        if answers.state(desktop) == PAUSED:
            raise DesktopError("sandbox", id, "is paused: no time of it runs", "connect to it to go on", 404)
        ends, longest = self.clock() + seconds, answers.longest(desktop)
        if ends > longest and not only_longer:
            reason, remedy = "is longer than the desktop is given for", f"give at most {longest - self.clock():.0f}"
            raise DesktopError("timeout", str(seconds), reason, remedy, 400)
        ends = min(ends, longest)
        if not only_longer or kept.ends is None or ends > kept.ends:
            self._last_until(id, ends)

    async def _found(self, caller: Caller, id: str, *, over: bool = False) -> tuple[DesktopState, Kept | None]:
        desktop, kept = desktop_id(id), self.keeping.find(id)
        if desktop is None or (kept and kept.killed):
            raise unknown(id)
        try:
            found = await caller.mission.desktop(desktop)
        except DesktopError as error:
            if error.status != 404:
                raise
            if kept and kept.owner == caller.owner:
                await self.forget_gone(caller, id)
            raise unknown(id) from error
        if found.get("machine") != machine_of(id) or (answers.is_over(found) and not over):
            raise unknown(id)
        return self.power.seen(found), kept

    async def _require_answering(self, caller: Caller, desktop: DesktopState, id: str) -> None:
        try:
            async with self.ways.door(id, desktop["id"], caller) as door, asyncio.timeout(ANSWER_SECONDS):
                await door.bytes("GET", "/health")
        except (DesktopError, TimeoutError) as error:
            reason = f"is not paused, since it does not answer ({getattr(error, 'reason', 'in time')})"
            raise DesktopError("sandbox", id, reason, "pause it without `strict`", 503) from error

    def _made(self, id: str, task: asyncio.Task[Kept]) -> None:
        del self._making[id]
        self.changed()
        if not task.cancelled():
            # Nobody may be left who would hear of it.
            task.exception()

    def _last_until(self, id: str, ends: float) -> None:
        self.keeping.last_until(id, ends)
        self.changed()

    def _token(self, caller: Caller, kept: Kept) -> str:
        token = token_for(caller.key, kept)
        self.keeping.give(kept.id, token, caller.owner)
        return token

    async def _workspaces(self, caller: Caller) -> dict[str, Workspace]:
        return {workspace["id"]: workspace async for workspace in caller.mission.workspaces()}


def _tier(workspace: Workspace, desktop: DesktopState) -> dict[str, Any]:
    return next((tier for tier in workspace["tiers"] if tier["name"] == desktop["tier"]), {})
