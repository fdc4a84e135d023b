"""Keeps the open pages of sessions, and sends each its news as Server-Sent Events while its session lasts."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Session

STILL_SECONDS = 5.0  # well below what HAProxy waits for a client
STILL = ": still here\n\n"


@dataclass(eq=False)
class Page:
    """An open page of a session, and the sign that there is news for it."""

    session: Session
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Pages:
    """The open pages of one kind, of all sessions; `changed` is called when they are of other desktops than before."""

    def __init__(self, per_session: int, most: int, changed: Callable[[], None]) -> None:
        self._per_session, self._most, self._changed = per_session, most, changed
        self._open: set[Page] = set()

    def join(self, session: Session, reason: str, remedy: str) -> Page:
        """Take in a page of a session; raises `GatewayError` with `reason` and `remedy` if there are too many."""
        mine = len(self.of(session.id))
        if mine >= self._per_session or len(self._open) >= self._most:
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "pages", reason, remedy, mine or len(self._open))
        page = Page(session)
        with self._watched():
            self._open.add(page)
        return page

    def leave(self, page: Page) -> None:
        """A page is open no longer."""
        with self._watched():
            self._open.discard(page)

    def of(self, session: str) -> list[Page]:
        """The pages of a session."""
        return [page for page in self._open if page.session.id == session]

    def desktops(self) -> set[str]:
        """The desktops that have an open page."""
        return {page.session.desktop for page in self._open}

    def tell(self, desktops: Collection[str]) -> None:
        """There is news for the pages of these desktops."""
        for page in self._open:
            if page.session.desktop in desktops:
                page.news.set()

    def sweep(self, alive: Collection[str]) -> None:
        """Let the pages of sessions that are over end at once."""
        for page in self._open:
            if page.session.id not in alive:
                page.news.set()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        before = self.desktops()
        yield
        if self.desktops() != before:
            self._changed()


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
