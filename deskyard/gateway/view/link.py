"""The filter's line to the session service: asks for each connection, hears who drives, waits and is stopped.

Each word is a line of JSON. While the service is away, connections go on as they were and new ones are refused.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any, Protocol

from deskyard.gateway.view.stream import Stream

ANSWER_SECONDS = 5
AGAIN_SECONDS = 0.2
REPORT_SECONDS = 1.0
LINE_LIMIT = 1024 * 1024


class Refused(Exception):
    """The service allows no connection; `status` is for the client."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Connections(Protocol):
    """The connections of a gateway, as far as the line speaks of them."""

    streams: dict[int, Stream]
    drivers: dict[str, str]  # desktop -> session

    def close(self, session: str) -> None:
        """End all connections of a session."""

    def hide(self, private: dict[str, tuple[str, int]]) -> None:
        """Have the services of these desktops, and of no other, know that a person wants privacy."""

    def look_out(self, awaited: dict[str, dict[str, tuple[str, int]]]) -> None:
        """Look which of these routes answer, for as long as somebody waits for their desktops."""

    def halt(self, halted: dict[str, tuple[str, int, bool]]) -> None:
        """Have these desktops halt what their agents run (true), or let them go on (false)."""

    def let_go(self, ended: dict[str, tuple[str, int, tuple[str, ...]]]) -> None:
        """Have the services of these desktops let go what these sessions hold, which are over."""


class ViewLink:
    """A line to the session service, made again whenever it breaks."""

    def __init__(self, path: Path, view: Connections) -> None:
        self._path = path
        self._view = view
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reported: dict[int, float] = {}
        self._unsaid: list[dict[str, Any]] = []  # floods from while the service was away

    async def keep(self) -> None:
        """Hold the line for as long as this process lives."""
        while True:
            try:
                await self._hold()
            except Exception as error:  # whatever came of it: without the line no connection is opened any more
                print(f"no line to the session service: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                self._writer = None
                for future in self._waiting.values():
                    if not future.done():
                        future.set_exception(ConnectionResetError("the session service went away"))
            await asyncio.sleep(AGAIN_SECONDS)

    async def open(self, stream: Stream) -> tuple[str, int]:
        """Where this connection may go; raises `Refused`."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[stream.number] = future
        try:
            self._say("open", stream)
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await future
        except (OSError, TimeoutError) as error:
            raise Refused(503) from error
        finally:
            self._waiting.pop(stream.number, None)
        if answer["status"] != 101:
            raise Refused(answer["status"])
        # Who drives was heard with the answer (`_hear`), and newer news may have come since.
        return answer["address"], answer["port"]

    def closed(self, stream: Stream, reason: str, *, flood: bool) -> None:
        """Tell that a connection is over, and whether its session is to end for it.

        If the service is away, it will miss the connection in the next list, and hears of a flood then.
        """
        self._reported.pop(stream.number, None)
        message = self._about("closed", stream, reason=reason, dropped=stream.filter.dropped, flood=flood)
        try:
            self._write(message)
        except OSError:
            if flood:
                self._unsaid.append(message)

    def looked(self, desktop: str, answering: dict[str, bool]) -> None:
        """Tell which routes of an awaited desktop answer; the next look tells it anew if the service is away."""
        with contextlib.suppress(OSError):
            self._write({"say": "looked", "desktop": desktop, "answering": answering})

    def halted(self, desktop: str, still: bool | None) -> None:
        """Tell whether an agent stands still; the next word to its desktop tells it anew if the service is away."""
        with contextlib.suppress(OSError):
            self._write({"say": "halted", "desktop": desktop, "still": still})

    async def _hold(self) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path), limit=LINE_LIMIT)
        except (FileNotFoundError, ConnectionRefusedError):
            return  # not there yet
        report = asyncio.create_task(self._report())
        try:
            self._writer = writer
            for stream in self._view.streams.values():
                self._say("again", stream)
            while self._unsaid:
                self._write(self._unsaid.pop())
            while line := await reader.readline():
                self._hear(json.loads(line))
        finally:
            report.cancel()
            writer.close()

    def _hear(self, message: dict[str, Any]) -> None:
        if "answer" in message:
            future = self._waiting.get(message["answer"])
            if future is not None and not future.done():
                future.set_result(message)
        if "drivers" in message:
            self._view.drivers = message["drivers"]
        if "private" in message:
            self._view.hide({desktop: (where[0], where[1]) for desktop, where in message["private"].items()})
        if "awaited" in message:
            self._view.look_out(
                {
                    desktop: {name: (where[0], where[1]) for name, where in places.items()}
                    for desktop, places in message["awaited"].items()
                }
            )
        if "halted" in message:
            halted = message["halted"].items()
            self._view.halt({desktop: (address, port, stops) for desktop, (address, port, stops) in halted})
        if "ended" in message:
            ended = message["ended"].items()
            self._view.let_go({desktop: (address, port, tuple(ids)) for desktop, (address, port, ids) in ended})
        if "close" in message:
            self._view.close(message["close"])

    async def _report(self) -> None:
        """Say now and then who acted, so that idle ones can be told from busy ones."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            for stream in self._view.streams.values():
                if stream.filter.acted > self._reported.get(stream.number, 0):
                    self._reported[stream.number] = stream.filter.acted
                    self._say("acted", stream, at=stream.filter.acted)

    def _say(self, word: str, stream: Stream, **facts: object) -> None:
        self._write(self._about(word, stream, **facts))

    def _write(self, message: dict[str, Any]) -> None:
        if self._writer is None:
            raise ConnectionError("the session service is away")
        self._writer.write(json.dumps(message).encode() + b"\n")

    @staticmethod
    def _about(word: str, stream: Stream, **facts: object) -> dict[str, Any]:
        return {
            "say": word,
            "stream": stream.number,
            "session": stream.session,
            "desktop": stream.desktop,
            "address": stream.address,
            "shows": stream.shows,
            "since": stream.since,
            "acted": stream.filter.acted,
            **facts,
        }
