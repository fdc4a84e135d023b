"""Passes commands to the browser and its answers back, as long as no person drives; each command is recorded."""

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed

from deskyard.computer.claims import digest
from deskyard.computer.problem import Problem

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

# As a stream's viewers are told.
GONE = 4410
TOO_LARGE = 1009
ENDED = "the browser or the page ended"
NO_COMMAND, REFUSED = -32600, -32000
MOST_METHOD = 100  # characters

Record = Callable[[str, str], None]  # of a method, and the hash of its parameters


class Relay:
    """One client's connection to the browser, or to a page of it."""

    def __init__(
        self, client: WebSocket, browser: "ClientConnection", check: Callable[[], None], record: Record
    ) -> None:
        self._client = client
        self._browser = browser
        self._check = check
        self._record = record

    async def serve(self) -> None:
        """Pass on both ways, until one side ends."""
        both = [asyncio.create_task(self._commands()), asyncio.create_task(self._answers())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            await self._browser.close()

    async def _commands(self) -> None:
        while True:
            message = await self._client.receive()
            if message["type"] == "websocket.disconnect":
                return
            await self._command(message.get("text"))

    async def _command(self, text: str | None) -> None:
        """Do what a message says, or answer as the protocol does why not."""
        said = _read(text)
        if said is None:
            reason = "a command is a JSON object with a number `id` and a `method`, in a text message"
            await self._client.send_json({"error": {"code": NO_COMMAND, "message": reason}})
            return
        try:
            self._check()
        except Problem as problem:
            about = {name: said[name] for name in ("id", "sessionId") if name in said}
            message = f"{problem.field}: {problem.reason}; {problem.remedy}"
            await self._client.send_json({**about, "error": {"code": REFUSED, "message": message}})
            return
        self._record(said["method"], digest(json.dumps(said.get("params"), sort_keys=True)))
        await self._browser.send(text or "")

    async def _answers(self) -> None:
        try:
            async for message in self._browser:
                await self._client.send_text(message if isinstance(message, str) else message.decode())
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == TOO_LARGE:
                await self._client.close(TOO_LARGE, "an answer is larger than 256 MiB")
                return
        await self._client.close(GONE, ENDED)


def _read(text: str | None) -> dict[str, Any] | None:
    """A command; None of what is none, so that nothing passes that the record would not name."""
    try:
        said = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(said, dict) or type(said.get("id")) is not int:
        return None
    method = said.get("method")
    return said if isinstance(method, str) and 0 < len(method) <= MOST_METHOD else None
