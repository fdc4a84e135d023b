"""Somebody who looks at a channel: RFB in the messages of a WebSocket, at their own pace."""

import asyncio
import contextlib

from starlette.websockets import WebSocket, WebSocketDisconnect

from deskyard.computer.streaming import rfb
from deskyard.computer.streaming.channel import Channel
from deskyard.computer.streaming.encodings import ZLIB_HEADER, ZRLE, rectangle
from deskyard.computer.streaming.stream import Update

PROTOCOL = "binary"
OVER, UNCLEAR = 4410, 1002  # why a WebSocket is closed
LAST_WORDS_SECONDS = 2.0


class Viewer:
    """One WebSocket, from its opening to its end."""

    def __init__(self, socket: WebSocket, channel: Channel) -> None:
        self._socket = socket
        self._channel = channel
        self._stream = channel.stream
        self._hearing = rfb.Hearing()
        self._size = self._stream.frame.size
        self._seen = 0
        self._before = 0  # frames up to this number are not for this viewer
        self._is_open = False
        self._has_packed = False  # zlib's header of ZRLE was sent

    async def serve(self) -> None:
        """Send what is asked for until the viewer leaves or the channel is over."""
        asked = self._socket.scope.get("subprotocols") or []
        await self._socket.accept(PROTOCOL if PROTOCOL in asked else None)
        with self._channel.watch() as news:
            # What was taken last may be of a time in which this viewer might not look, or of a person's privacy.
            self._before = self._stream.renew()
            tasks = [
                asyncio.ensure_future(self._hear(news)),
                asyncio.ensure_future(self._send(news)),
                asyncio.ensure_future(self._channel.ended.wait()),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if self._channel.over:
                    # Who takes nothing any more does not hear why, either.
                    await asyncio.wait(tasks[:2], timeout=LAST_WORDS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _hear(self, news: asyncio.Event) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_bytes(rfb.VERSION)
            while (message := await self._socket.receive())["type"] != "websocket.disconnect":
                try:
                    if message.get("bytes") is None:
                        raise rfb.Unclear("a stream speaks in binary messages")
                    self._hearing.take(message["bytes"])
                except rfb.Unclear as error:
                    await self._socket.close(UNCLEAR, str(error))
                    return
                await self._greet()
                news.set()

    async def _greet(self) -> None:
        answers = {"version": b"\x01\x01", "security": b"\0\0\0\0"}
        for stage in self._hearing.passed:
            if stage == "init":
                self._size = self._stream.frame.size
                await self._socket.send_bytes(rfb.greeting(*self._size, f"Deskyard: {self._stream.about['kind']}"))
                self._is_open = True
            else:
                await self._socket.send_bytes(answers[stage])
        self._hearing.passed.clear()

    async def _send(self, news: asyncio.Event) -> None:
        asked = self._hearing.asked
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while not self._channel.over:
                news.clear()
                if self._is_open and asked.waits and asked.anew:
                    asked.anew = False
                    self._seen, self._before = 0, self._stream.renew()
                if self._is_open and asked.waits and self._stream.frame.number > max(self._seen, self._before):
                    await self._answer(await self._stream.update(self._seen, asked.form, self._size))
                    continue
                if self._is_open and asked.waits:
                    self._stream.want()
                await news.wait()
            await self._socket.close(OVER, self._channel.over)

    async def _answer(self, update: Update) -> None:
        asked = self._hearing.asked
        if update.size != self._size and asked.resizes:
            # What was packed has the old size: all of the new one follows on the next request.
            self._size, self._seen = update.size, 0
            asked.waits = False
            await self._socket.send_bytes(rfb.resized(*update.size))
            return
        self._seen = update.number
        if update.parts:
            asked.waits = False
            encoding = asked.form.encoding
            pieces = [rectangle(part, encoding, self._whole(encoding, data)) for part, data in update.parts]
            await self._socket.send_bytes(rfb.updates(len(pieces)) + b"".join(pieces))

    def _whole(self, encoding: int, data: bytes) -> bytes:
        if encoding != ZRLE:
            return data
        data = data if self._has_packed else ZLIB_HEADER + data
        self._has_packed = True
        return len(data).to_bytes(4, "big") + data
