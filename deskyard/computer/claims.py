"""Tells the gateway what a request did, in a header of the answer, for its audit; no client sees it there.

What a request does is noted while it is answered, and in the threads that work for it under its context.
"""

import hashlib
from contextvars import ContextVar
from typing import Any, Protocol

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deskyard.wire.actions import HEADER, pack

BATCH = "batch"  # the kind of the note that holds the frames before and after all of a request's actions
_noted: ContextVar[list[dict[str, Any]] | None] = ContextVar("noted", default=None)


class Sink(Protocol):
    """Where the record of what was done goes."""

    def note(self, entry: dict[str, Any]) -> None:
        """Take one action; never its text, only the hash of it."""


class Claiming:
    """A sink that also claims what it takes, in the answer to the request in hand."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def note(self, entry: dict[str, Any]) -> None:
        """Pass it on, and claim it."""
        self._sink.note(entry)
        claim(entry)


def claim(entry: dict[str, Any]) -> None:
    """Add an action to what the answer in hand claims; nothing where no request is."""
    noted = _noted.get()
    if noted is not None:
        noted.append(entry)


def digest(text: str) -> str:
    """How a text is claimed: by its SHA-256, never as it is."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Claims:
    """An application whose answers say what was done for them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with the header where something was done before the answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        noted: list[dict[str, Any]] = []
        token = _noted.set(noted)

        async def claiming(message: Message) -> None:
            if message["type"] == "http.response.start" and noted:
                MutableHeaders(scope=message).append(HEADER, _packed(noted))
            await send(message)

        try:
            await self._app(scope, receive, claiming)
        finally:
            _noted.reset(token)


def _packed(noted: list[dict[str, Any]]) -> str:
    frames = next((entry for entry in noted if entry["kind"] == BATCH), {})
    actions = [entry for entry in noted if entry["kind"] != BATCH]
    return pack(actions, {name: frames[name] for name in ("frame_before", "frame_after") if frames.get(name)})
