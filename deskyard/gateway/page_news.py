"""Sends an open page its news as Server-Sent Events, for as long as its session lasts."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from deskyard.gateway.session.store import Session

STILL_SECONDS = 5.0  # well below what HAProxy waits for a client
STILL = ": still here\n\n"


@dataclass(eq=False)
class Page:
    """An open page of a session, and the sign that there is news for it."""

    session: Session
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Source:
    """Where the news of a page comes from: `read` gives what it has not been sent yet, or None; `leave` ends it."""

    read: Callable[[], dict[str, Any] | None]
    leave: Callable[[], None]
    is_good: Callable[[], bool]


class PageNews(StreamingResponse):
    """The answer to a page that follows; its source hears when the connection is over."""

    media_type = "text/event-stream"

    def __init__(self, page: Page, source: Source, headers: dict[str, str]) -> None:
        super().__init__(news(page, source), headers=headers)
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the page leaves, or its session is over."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._source.leave()


async def news(page: Page, source: Source) -> AsyncIterator[str]:
    """Each piece of news; ends with the session, so that the page asks and hears why."""
    while source.is_good():
        page.news.clear()
        facts = source.read()
        yield STILL if facts is None else f"data: {json.dumps(facts, ensure_ascii=False)}\n\n"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(page.news.wait(), STILL_SECONDS)


def changes(read: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any] | None]:
    """A reader of these facts whenever they are others than the last time."""
    said: dict[str, Any] | None = None

    def again() -> dict[str, Any] | None:
        nonlocal said
        before, said = said, read()
        return None if said == before else said

    return again
