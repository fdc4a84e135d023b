"""Subscriptions to resources, by the protocol's newest revision (one stream each) and the ones before (by session)."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from deskyard_sdk import AsyncDesktop, DesktopError
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ServerEvent
from mcp_types import (
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from deskyard_mcp.answers import denied
from deskyard_mcp.following import Following

MOST_SUBSCRIBERS = 64
# What a client that reads no more may have before it; then its stream ends.
MOST_UNREAD = 64

Context = ServerRequestContext[Any, Any]


class Subscriptions:
    """Who is subscribed to what; `check` refuses what a session may not read."""

    def __init__(self, desktop: AsyncDesktop, check: Callable[[str], None]) -> None:
        self.bus = InMemorySubscriptionBus()
        self._check = check
        self._following = Following(desktop, self._publish, self._end)
        self._streams = ListenHandler(self.bus, max_subscriptions=MOST_SUBSCRIBERS, max_buffered_events=MOST_UNREAD)
        self._sessions: dict[Connection, Session] = {}

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Serve a stream of what changes, until its client leaves or the desktop's session is over."""
        uris = params.notifications.resource_subscriptions or ()
        async with contextlib.AsyncExitStack() as stack:
            try:
                for uri in uris:
                    self._check(uri)
                await stack.enter_async_context(self._following.of(uris))
            except DesktopError as error:
                raise denied(error) from error
            return await self._streams(context, params)

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Let a session hear of a resource's changes."""
        try:
            self._check(params.uri)
            await self._session(context).add(params.uri)
        except DesktopError as error:
            raise denied(error) from error
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Let a session hear of it no more; of what it did not hear, that is so already."""
        if session := self._sessions.get(_connection(context)):
            await session.remove(params.uri)
        return EmptyResult()

    def _session(self, context: Context) -> "Session":
        connection = _connection(context)
        if (session := self._sessions.get(connection)) is None:
            if len(self._sessions) >= MOST_SUBSCRIBERS:
                reason = f"are subscribed already, {MOST_SUBSCRIBERS} of them"
                raise DesktopError("clients", "", reason, "end one of them, or use the tool `wait`")
            session = self._sessions[connection] = Session(connection, self._following, self.bus)
            connection.exit_stack.callback(self._sessions.pop, connection, None)
            connection.exit_stack.push_async_callback(session.close)
        return session

    async def _publish(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri))

    def _end(self) -> None:
        self._streams.close()


def _connection(context: Context) -> Connection:
    # The library gives a handler no other way to what lives as long as the client's session.
    return context.session._connection


class Session:
    """A client's session of the older revisions, and the resources that it is subscribed to."""

    def __init__(self, connection: Connection, following: Following, bus: InMemorySubscriptionBus) -> None:
        self._connection, self._following = connection, following
        self._subscribed: dict[str, contextlib.AsyncExitStack] = {}
        self._unsaid: dict[str, None] = {}
        self._news = asyncio.Event()
        self._forget = bus.subscribe(self._hear)
        self._saying = asyncio.create_task(self._say())

    async def add(self, uri: str) -> None:
        """Hear of a resource; raises `DesktopError` for one that cannot be followed."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._following.of([uri]))
            # Who asks twice hears of it once.
            if uri not in self._subscribed:
                self._subscribed[uri] = stack.pop_all()

    async def remove(self, uri: str) -> None:
        """Hear of it no more."""
        self._unsaid.pop(uri, None)
        if stack := self._subscribed.pop(uri, None):
            await stack.aclose()

    async def close(self) -> None:
        """End with the client's session."""
        self._forget()
        self._saying.cancel()
        await asyncio.wait([self._saying])
        for uri in list(self._subscribed):
            await self.remove(uri)

    def _hear(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated) and event.uri in self._subscribed:
            self._unsaid[event.uri] = None
            self._news.set()

    async def _say(self) -> None:
        # A client that reads no more holds up nobody else, and has each resource before it once.
        while True:
            await self._news.wait()
            self._news.clear()
            while self._unsaid:
                uri = next(iter(self._unsaid))
                del self._unsaid[uri]
                await self._connection.notify("notifications/resources/updated", {"uri": uri})
