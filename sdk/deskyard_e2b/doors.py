"""The open ways to desktops: a session at the gateway carries four requests at once, so a busy sandbox has several."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from deskyard_sdk import DesktopError
from deskyard_sdk.door import Door, open_door
from deskyard_sdk.mission import Scope

from deskyard_e2b.answers import unknown
from deskyard_e2b.keyring import Caller
from deskyard_e2b.naming import machine_of

# What a gateway lets pass at once (deskyard/gateway/machine/layout.py): by a session, and to a desktop.
AT_ONCE, MOST_DOORS = 4, 8
SCOPES: Sequence[Scope] = ("files", "shell")
# A gateway hears that somebody left an answer when the desktop next says something: a stream says that it lives in
# that many seconds, and its place is taken for somewhat longer.
SIGN_SECONDS, LEAVING_SECONDS = 5, 12.0
OpensDoor = Callable[[Caller, str], Awaitable[Door]]


async def open_by_link(caller: Caller, desktop: str) -> Door:
    """A door by a link that Mission Control gives the caller, for files and processes alone."""
    return await open_door(await caller.mission.link(desktop, "agent", SCOPES), caller.mission.ca)


@dataclass(eq=False)
class Carrying:
    """A door, and how many requests pass it now."""

    door: Door
    now: int = 0

    def leave(self) -> None:
        """A request is over."""
        self.now -= 1


@dataclass
class Way:
    """The doors to a desktop for a key."""

    doors: list[Carrying] = field(default_factory=list)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def free(self) -> Carrying | None:
        """A door that carries another request."""
        return next((item for item in self.doors if item.now < AT_ONCE and not item.door.is_over), None)


class Ways:
    """All open doors, by sandbox and whose key opened them, with the requests that pass them."""

    def __init__(self, opens: OpensDoor = open_by_link) -> None:
        self._opens = opens
        self._ways: dict[str, dict[bytes, Way]] = {}
        self._passing: dict[str, set[asyncio.Task[None]]] = {}

    @contextlib.asynccontextmanager
    async def door(self, sandbox: str, desktop: str, caller: Caller) -> AsyncIterator[Door]:
        """A door for a request, opened where none is free."""
        way = self._ways.setdefault(sandbox, {}).setdefault(caller.owner, Way())
        carrying = await self._free(way, sandbox, desktop, caller)
        try:
            yield carrying.door
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(LEAVING_SECONDS, carrying.leave)
            raise
        except BaseException:
            carrying.leave()
            raise
        carrying.leave()

    @contextlib.contextmanager
    def passing(self, sandbox: str, task: asyncio.Task[None]) -> Iterator[None]:
        """Let a request be cut with its sandbox."""
        tasks = self._passing.setdefault(sandbox, set())
        tasks.add(task)
        try:
            yield
        finally:
            tasks.discard(task)
            if not tasks and self._passing.get(sandbox) is tasks:
                del self._passing[sandbox]

    async def drop(self, sandbox: str, caller: Caller, door: Door) -> None:
        """Use a door no more: its session was ended at the gateway."""
        way = self._ways.get(sandbox, {}).get(caller.owner, Way())
        for carrying in [item for item in way.doors if item.door is door]:
            way.doors.remove(carrying)
            await door.close()

    async def cut(self, sandbox: str) -> None:
        """End all that passes to a sandbox, and close its doors."""
        tasks = set(self._passing.get(sandbox, ()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for way in self._ways.pop(sandbox, {}).values():
            for carrying in way.doors:
                await carrying.door.close()

    async def close(self) -> None:
        """The same for all sandboxes."""
        for sandbox in {*self._ways, *self._passing}:
            await self.cut(sandbox)

    async def _free(self, way: Way, sandbox: str, desktop: str, caller: Caller) -> Carrying:
        async with way.opening:
            carrying = way.free()
            if carrying is None:
                for item in [item for item in way.doors if item.door.is_over and not item.now]:
                    way.doors.remove(item)
                    await item.door.close()
                if len(way.doors) >= MOST_DOORS:
                    reason = f"has {AT_ONCE * MOST_DOORS} requests under way"
                    raise DesktopError("sandbox", desktop, reason, "wait until one of them ends", 429)
                carrying = Carrying(await self._opened(sandbox, desktop, caller))
                way.doors.append(carrying)
            # Before another may look.
            carrying.now += 1
            return carrying

    async def _opened(self, sandbox: str, desktop: str, caller: Caller) -> Door:
        door, machine = await self._opens(caller, desktop), machine_of(sandbox)
        if machine is None:
            return door
        try:
            # Behind it: a machine that is there still was there all the time, since none comes again.
            found = await caller.mission.desktop(desktop)
            if found.get("machine") != machine:
                raise unknown(sandbox)
        except BaseException:
            await door.close()
            raise
        return door
