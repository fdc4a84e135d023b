"""Sandboxes as desktops: made, found, stopped and destroyed by Mission Control, with the caller's own key."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import DesktopState, Workspace

from deskyard_e2b import answers, environment
from deskyard_e2b.answers import unknown
from deskyard_e2b.doors import Ways
from deskyard_e2b.keeping import Keeping, Kept, fresh_nonce, token_for
from deskyard_e2b.keyring import Caller
from deskyard_e2b.naming import NOWHERE, Choice, chosen, desktop_id, fresh_name, machine_of, sandbox_id, sandbox_of
from deskyard_e2b.wishes import Wanted

Clock = Callable[[], float]


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
    _making: dict[str, asyncio.Task[Kept]] = field(default_factory=dict)

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
                self._make(caller, id, tier, wanted, idempotency is not None)
                if self.default.task_seconds is None
                else self._begin(caller, workspace, tier, wanted, name)
            )
            self._making[id] = making
            making.add_done_callback(lambda task: self._made(id, task))
        # Whoever asked may leave: it is made to the end all the same, and ends with its time.
        kept = await asyncio.shield(self._making[id])
        return answers.created(kept, self._token(caller, kept), self.domain)

    async def connect(self, caller: Caller, id: str, seconds: int) -> tuple[bool, dict[str, Any]]:
        """A sandbox for this key, and whether it had to be started for that; its time is only made longer."""
        desktop, kept = await self._found(caller, id)
        if kept is None:
            template = f"{desktop['workspaceId']}/{desktop['tier']}"
            kept = Kept(id, caller.owner, fresh_nonce(), False, template, {}, self.clock(), None)
            self.keeping.add(kept)
        is_paused = answers.state(desktop) == "paused"
        if is_paused:
            await caller.mission.wait(await caller.mission.start(desktop["id"]))
        if kept.made:
            ends = min(self.clock() + seconds, answers.longest(desktop))
            if kept.ends is not None and not (is_paused or kept.ended):
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
            ids.add(id)
            if not answers.is_over(desktop) and (id not in kept or not kept[id].killed):
                workspace = workspaces.get(desktop["workspaceId"])
                tier = _tier(workspace, desktop) if workspace else {}
                found.append(answers.listed(desktop, kept.get(id), tier))
        for id, sandbox in kept.items():
            if sandbox.owner == caller.owner and id not in ids and id not in self._making and not sandbox.killed:
                self.keeping.forget(id)
        return found

    async def pause(self, caller: Caller, id: str) -> None:
        """Shut a sandbox down, with its disk kept."""
        desktop, _ = await self._found(caller, id)
        if answers.is_task(desktop):
            reason, remedy = "is a desktop for a task, which is never stopped: it goes with its data", "kill() ends it"
            # To a 409 their clients say nothing: it is paused already.
            raise DesktopError("sandbox", id, reason, remedy, 400)
        if answers.state(desktop) == "paused":
            raise DesktopError("sandbox", id, "is paused already", "connect to it to go on", 409)
        await caller.mission.wait(await caller.mission.stop(desktop["id"]))
        await self.ways.cut(id)
        self.keeping.end(id)

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
            await caller.mission.wait(destroying)
        except BaseException:
            self.keeping.kill(id, False)
            raise
        self.keeping.forget(id)

    async def last(self, caller: Caller, id: str, seconds: int, only_longer: bool = False) -> None:
        """Let a sandbox end so many seconds from now."""
        desktop, kept = await self._found(caller, id)
        if kept is None or not kept.made:
            remedy = "leave it; pause() stops it"
            raise DesktopError(
                "sandbox", id, "is a desktop that no timeout ends: Sandbox.create did not make it", remedy, 409
            )
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
            if kept and kept.owner == caller.owner and id not in self._making:
                self.keeping.forget(id)
            raise unknown(id) from error
        if found.get("machine") != machine_of(id) or (answers.is_over(found) and not over):
            raise unknown(id)
        return found, kept

    async def _begin(self, caller: Caller, workspace: str, tier: str, wanted: Wanted, wish: str) -> Kept:
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
            await self._found(caller, id)
        except DesktopError as error:
            if error.status != 404:
                raise
            reason = f"was that of {id}, which is gone"
            raise DesktopError("Idempotency-Key", "", reason, "give another", 409) from error

    async def _make(self, caller: Caller, id: str, tier: str, wanted: Wanted, repeatable: bool) -> Kept:
        desktop = desktop_id(id) or ""
        kept = self.keeping.find(id)
        if kept is None or not await self._is_there(caller, desktop):
            now = self.clock()
            has = bool(wanted.environment)
            kept = Kept(
                id,
                caller.owner,
                fresh_nonce(),
                True,
                wanted.template,
                wanted.metadata,
                now,
                now + wanted.seconds,
                pauses=wanted.pauses,
                environment=has,
            )
            self.keeping.add(kept)
            try:
                await self._bring_up(caller, desktop, tier, repeatable)
            except BaseException:
                self.keeping.forget(id)
                raise
            now = self.clock()
            self.keeping.start(id, now, now + wanted.seconds)
        if wanted.environment:
            async with self.ways.door(id, desktop, caller) as door:
                await environment.write(door, wanted.environment)
        return kept

    async def _bring_up(self, caller: Caller, desktop: str, tier: str, repeatable: bool) -> None:
        workspace, _, name = desktop.partition(".")
        try:
            work = await caller.mission.create(workspace, name, tier, self.default.image)
        except DesktopError as error:
            # Only this key's same wish has this name: an earlier try, of which this program knows nothing, made it.
            if not (repeatable and error.status == 409 and error.field == "name"):
                raise
            if not await self._is_there(caller, desktop):
                raise
            work = await caller.mission.start(desktop)
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
