"""Waits for a desktop that sleeps since nobody used it: says that it is wanted, and has who asked ask again.

The gateway starts nothing: its host reads who wants which desktop, and starts what it put to sleep itself.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from http import HTTPStatus

import httpx

from deskyard_sdk.errors import DesktopError, refusal

WAKE_SECONDS = 180.0
AGAIN_SECONDS = 2.0
# A host that has read the wish and says nothing for so long starts nothing. It may have read it as it looked who uses
# what, and starts what is wanted at its next run, which its timer begins a minute after the end of that one.
HEARD_SECONDS = 90.0
FAILED = "failed"
SAID = {"starts": "it is being started", "no-room": "its host has no room for it now", FAILED: "it did not start"}
NOBODY, NOT_YET = "it does not sleep, or nobody starts it", "it does not sleep, or its host has not started it yet"

# False for who follows a desktop for long: coming again and again, it would never let it sleep.
wakes = ContextVar("wakes", default=True)

Wish = Callable[[], Awaitable[httpx.Response]]


class Waking:
    """The wait of one request for a desktop that sleeps, `within` seconds at most; `wish` says that it is wanted."""

    def __init__(self, wish: Wish, within: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._wish, self._within, self._clock = wish, within if wakes.get() else 0, clock
        self._since: float | None = None
        self._heard: float | None = None

    async def asks_again(self, status: int, answer: bytes) -> bool:
        """Whether to ask again what was answered so, after a moment; raises `DesktopError` for what does not start."""
        if not self._within or status != HTTPStatus.SERVICE_UNAVAILABLE or refusal(status, answer).field != "desktop":
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        wished = await self._wish()
        if wished.status_code >= HTTPStatus.BAD_REQUEST:
            said = refusal(wished.status_code, wished.content)
            if (wished.status_code, said.field) == (HTTPStatus.CONFLICT, "off"):
                raise DesktopError("desktop", "", f"does not answer: it {said.reason}", said.remedy, status)
            # The session may only look, or the gateway is from before: the answer stands.
            return False
        facts = wished.json()
        came = facts.get("waking")
        if facts.get("heard") and self._heard is None:
            self._heard = now
        if came == FAILED or self._is_over(now, came):
            is_ignored = self._is_ignored(now, came)
            why = SAID.get(str(came), NOBODY if is_ignored else NOT_YET)
            remedy = "see whether it runs: workspace.status; what a person stopped, a person starts"
            if came != FAILED and not is_ignored:
                remedy = f"ask again, it may start yet; or {remedy}"
            raise DesktopError("desktop", "", f"does not answer: {why}", remedy, status)
        await asyncio.sleep(AGAIN_SECONDS)
        return True

    def _is_over(self, now: float, said: str | None) -> bool:
        assert self._since is not None
        return now - self._since >= self._within or self._is_ignored(now, said)

    def _is_ignored(self, now: float, said: str | None) -> bool:
        return said is None and self._heard is not None and now - self._heard >= HEARD_SECONDS
