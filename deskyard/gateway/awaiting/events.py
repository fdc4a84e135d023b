"""Tells a page that waits how far its desktop is: Server-Sent Events, for as long as its session lasts."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from deskyard.gateway.awaiting.awaiting import Awaiting, Page

STILL_SECONDS = 5.0  # well below what HAProxy waits for a client
STILL = ": still here\n\n"


class Events(StreamingResponse):
    """The answer to a page that has joined those who wait; it leaves them with its connection."""

    media_type = "text/event-stream"

    def __init__(self, awaiting: Awaiting, page: Page, is_good: Callable[[], bool], headers: dict[str, str]) -> None:
        super().__init__(news(awaiting, page, is_good), headers=headers)
        self._awaiting, self._page = awaiting, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the page leaves, or its session is over."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._awaiting.leave(self._page)


async def news(awaiting: Awaiting, page: Page, is_good: Callable[[], bool]) -> AsyncIterator[str]:
    """How far it is, each time that this changes; ends with the session, so that the page asks and hears why."""
    said = None
    while is_good():
        page.news.clear()
        facts = awaiting.facts(page.session)
        yield STILL if facts == said else f"data: {json.dumps(facts)}\n\n"
        said = facts
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(page.news.wait(), STILL_SECONDS)
