"""Whose keys this program has heard: in memory alone, so that none can be taken from its file or its log."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl

from deskyard_e2b.keeping import owner_of

LONGEST_KEY = 300
Opens = Callable[[str], Awaitable[AsyncMissionControl]]


@dataclass(frozen=True)
class Caller:
    """Who asks, with a key that Mission Control knows."""

    key: str = field(repr=False)
    owner: bytes
    mission: AsyncMissionControl


class Keyring:
    """The keys that were good when they were used last; `heard` is called when a key comes, new or again."""

    def __init__(self, opens: Opens, heard: Callable[[], None] = lambda: None) -> None:
        self._opens, self.heard = opens, heard
        self._callers: dict[bytes, Caller] = {}
        self._former: list[AsyncMissionControl] = []

    async def caller(self, key: str) -> Caller:
        """Who has this key; raises `DesktopError` where Mission Control knows nobody."""
        remedy = "set E2B_API_KEY to a key of Mission Control, dyk_...: ./inv control.key makes one"
        if not key or len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable():
            raise DesktopError("X-API-KEY", "", "is missing, or is no key", remedy, 401)
        owner = owner_of(key)
        if owner not in self._callers:
            try:
                mission = await self._opens(key)
            except DesktopError as error:
                if error.status == 401:
                    raise DesktopError("X-API-KEY", "", "is not known to Mission Control", remedy, 401) from error
                if not error.status:
                    remedy = "look whether it runs, and whether the door was given its CA: ./inv control.status"
                    raise DesktopError("Mission Control", "", error.reason, remedy, 503) from error
                raise
            if owner in self._callers:
                await mission.close()
            else:
                self._callers[owner] = Caller(key, owner, mission)
        self.heard()
        return self._callers[owner]

    def known(self, owner: bytes) -> Caller | None:
        """The key of an owner, if it was heard since this program was started."""
        return self._callers.get(owner)

    def forget(self, owner: bytes) -> None:
        """Forget a key that Mission Control refuses by now."""
        if caller := self._callers.pop(owner, None):
            self._former.append(caller.mission)

    async def close(self) -> None:
        """Forget all of them."""
        missions = [*self._former, *(caller.mission for caller in self._callers.values())]
        self._callers.clear()
        for mission in missions:
            await mission.close()
