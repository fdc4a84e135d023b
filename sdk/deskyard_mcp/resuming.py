"""Events of streams over HTTP, kept for a client whose connection broke: what it goes on with is whole, or is nothing.

The library gives all sessions the same store, and names a stream by the number of its request, which each client counts
by itself. So each session has a store of its own here, and its events' ids say nothing to another.
"""

import asyncio
import secrets
import time
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

# Of a session, and of all sessions together: pictures are most of it.
MOST_EVENTS, MOST_BYTES, MOST_BYTES_IN_ALL = 2_000, 8 * 2**20, 64 * 2**20
MOST_SECONDS = 300.0
# How soon a client comes again, as it is told.
RETRY_MS = 1_000


@dataclass(frozen=True)
class Event:
    """Something that was said on a stream; the beginning of a stream is an event that says nothing."""

    id: str
    number: int
    stream: str
    said: bytes
    at: float = field(default_factory=time.monotonic)


class Room:
    """The room for the events of all sessions; the oldest go first."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakSet[SessionEvents] = weakref.WeakSet()

    def session(self) -> "SessionEvents":
        """The events of one more session."""
        session = SessionEvents(self)
        self._sessions.add(session)
        return session

    def fit(self) -> None:
        """Forget what is too much."""
        while sum(session.size for session in self._sessions) > MOST_BYTES_IN_ALL:
            min((session for session in self._sessions if session.size), key=lambda session: session.oldest).forget()


class SessionEvents(EventStore):
    """The newest events of one session; those after any that is kept are all kept."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._mark = secrets.token_hex(8)
        self._count = 0
        self._events: deque[Event] = deque()
        self._forgetting: asyncio.TimerHandle | None = None
        self.size = 0

    @property
    def oldest(self) -> float:
        """When the first that is kept was said."""
        return self._events[0].at

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep what is said on a stream; its id."""
        self._count += 1
        said = message.model_dump_json(by_alias=True, exclude_unset=True).encode() if message else b""
        event = Event(f"{self._mark}-{self._count}", self._count, stream_id, said)
        self._events.append(event)
        self.size += len(said)
        while len(self._events) > MOST_EVENTS or self.size > MOST_BYTES:
            self.forget()
        self._room.fit()
        self._forget_in_time()
        return event.id

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Say again what was said on a stream after an event; of one that is not kept, nothing."""
        last = next((event for event in self._events if event.id == last_event_id), None)
        if last is None:
            return None
        # What is said meanwhile comes here, too: live it goes to nobody before all of this was said.
        while fresh := self._after(last):
            for event in fresh:
                if event.said:
                    await send_callback(EventMessage(jsonrpc_message_adapter.validate_json(event.said), event.id))
            last = fresh[-1]
        return last.stream

    def _after(self, last: Event) -> list[Event]:
        """The kept events of the same stream that were said later."""
        return [event for event in self._events if event.stream == last.stream and event.number > last.number]

    def forget(self) -> None:
        """Forget the oldest."""
        self.size -= len(self._events.popleft().said)

    def _forget_in_time(self) -> None:
        if self._events and not self._forgetting:
            left = max(0.0, self.oldest + MOST_SECONDS - time.monotonic())
            self._forgetting = asyncio.get_running_loop().call_later(left, self._forget_old)

    def _forget_old(self) -> None:
        self._forgetting = None
        while self._events and self.oldest + MOST_SECONDS <= time.monotonic():
            self.forget()
        self._forget_in_time()


class Sessions(StreamableHTTPSessionManager):
    """The sessions of a server; each is given the events of its own when it begins."""

    def __init__(self, app: Any, **options: Any) -> None:
        self._room = Room()
        super().__init__(app, retry_interval=RETRY_MS, **options)

    @property
    def event_store(self) -> EventStore:
        """The events of a session that begins: the library asks once for each."""
        return self._room.session()

    @event_store.setter
    def event_store(self, store: EventStore | None) -> None:
        """Take none: the library sets what it was given."""
