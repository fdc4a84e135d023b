"""Tools of the scope `see`: pictures, windows, events, the clipboard's text."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from deskyard_sdk import AsyncDesktop
from mcp_types import CallToolResult
from pydantic import Field

from deskyard_mcp.answers import MOST_SIDE, happened, said
from deskyard_mcp.offers import LOOKS, Call, Offer

MOST_EVENTS = 200
MOST_WAIT = 120

Region = Annotated[list[int] | None, Field(description="x, y, width, height in pixels of the screen")]
Event = Annotated[
    Literal[
        "window.appeared", "window.closed", "window.title", "window.focus", "window.moved", "dialog.appeared",
        "clipboard.changed", "person.took", "person.left", "privacy.on", "privacy.off", "screen.resized",
        "screen.settled", "region.changed", "app.ready",
        "process.ended", "process.output", "file.changed",
    ],
    Field(description="screen.settled: nothing was drawn for a while; app.ready: a window takes keys"),
]  # fmt: skip
After = Annotated[
    int | None, Field(description="count from this event's number: the `event` of the answer before the action")
]
Matching = Annotated[
    dict[str, Any] | None, Field(description='what the event must have, such as {"title": "Save", "class": "xterm"}')
]


class Seeing:
    """The tools by which an agent sees the desktop."""

    def __init__(self, desktop: AsyncDesktop) -> None:
        self._desktop = desktop

    def offers(self) -> Sequence[Offer]:
        """The tools."""
        calls: Sequence[Call] = (self.screenshot, self.windows, self.wait, self.events, self.clipboard)
        return [Offer("see", call, LOOKS) for call in calls]

    async def screenshot(
        self,
        region: Region = None,
        window: Annotated[int | None, Field(description="the id of a window, to see it alone")] = None,
        max: Annotated[int, Field(description="the long side of the picture in pixels", ge=16, le=2000)] = MOST_SIDE,
        format: Literal["jpeg", "png"] = "jpeg",
        if_changed: Annotated[int | None, Field(description="the `state` of an earlier picture")] = None,
    ) -> CallToolResult:
        """Look at the screen, or a part of it.

        The answer names the picture's `space`: give it with the place of a click, and the pixel of this picture is
        hit, however it is scaled. With `if_changed` no picture comes if nothing was drawn since.
        """
        wanted = {"region": region, "window": window, "max": max, "format": format, "if_changed": if_changed}
        return said({}, await self._desktop.screen(**wanted))

    async def windows(self) -> CallToolResult:
        """List the windows with their ids, titles, programs, places and states."""
        return said(await windows(self._desktop))

    async def wait(
        self,
        event: Event,
        match: Matching = None,
        after: After = None,
        within_seconds: Annotated[float, Field(gt=0, le=MOST_WAIT)] = 30,
        quiet_ms: Annotated[int | None, Field(description="for screen.settled: how long nothing is drawn")] = None,
        region: Region = None,
    ) -> CallToolResult:
        """Wait until something happens, and no longer.

        Give `after`, so that what happened meanwhile counts too. Never guess a time to sleep.
        """
        quiet = None if quiet_ms is None else quiet_ms / 1000
        found = await self._desktop.wait_for(
            event, within=within_seconds, after=after, quiet=quiet, region=region, match=match
        )
        return said(happened(found))

    async def events(
        self, after: Annotated[int, Field(description="the number of the last event that is known", ge=0)] = 0
    ) -> CallToolResult:
        """List what happened after an event, in its order; the number to go on from is `event`."""
        last = await self._desktop.last_event()
        found = await happened_after(self._desktop, after, last)
        return said({"events": found, "event": found[-1]["seq"] if found else last})

    async def clipboard(self) -> CallToolResult:
        """Read the clipboard's text."""
        return said({"text": await self._desktop.clipboard(), "untrusted": ["text"]})


async def windows(desktop: AsyncDesktop) -> dict[str, Any]:
    """The windows as facts, with the number of the last event before they were listed."""
    event = await desktop.last_event()
    found = [window.data for window in await desktop.windows.list()]
    return {"windows": found, "event": event, "untrusted": ["title", "class", "instance"]}


async def happened_after(desktop: AsyncDesktop, after: int, last: int) -> list[dict[str, Any]]:
    """Events after a number, up to the last one that is asked for: the oldest of it where that is much."""
    found: list[dict[str, Any]] = []
    if last > after:
        async with aclosing(desktop.events(after=after)) as events:
            async for event in events:
                found.append(happened(event))
                if event.seq >= last or len(found) >= MOST_EVENTS:
                    break
    return found
