"""Carries every VNC connection, and lets through what acts on a desktop only from the session that drives it.

A process of its own, so that connections outlive the session service. What the desktop says passes untouched; what a
client says is cut into messages. Where a connection goes, and who drives, is the session service's word alone:
HAProxy names the session, and the client has no say in either.

All desktops share this process: what a client may send is bounded before it is cut (`budget`), and each desktop has
one short turn at a time, so that many busy connections to one do not take the turns of another.
"""

import asyncio
import contextlib
import sys
from collections import defaultdict

from deskyard.gateway.machine import systemd
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.view.budget import Flood
from deskyard.gateway.view.endings import Endings
from deskyard.gateway.view.halters import Halters
from deskyard.gateway.view.heralds import Heralds
from deskyard.gateway.view.link import Refused, ViewLink
from deskyard.gateway.view.lookouts import Lookouts
from deskyard.gateway.view.stream import Filter, Stream
from deskyard.gateway.view.websocket import CLOSE, ProtocolError
from deskyard.wire.computer import SCOPES_HEADER, SEE, SESSION_HEADER, STREAM_HEADER

HEAD_LIMIT = 16384
HEAD_SECONDS = 5
CONNECT_SECONDS = 3
CHUNK = 256 * 1024  # of what a desktop says: it is only passed on
TURN = 1024  # of what a client says: may hold 146 frames
CLOSED = "closed"
SILENT = "the desktop does not answer"
REASONS = {401: "Unauthorized", 429: "Too Many Requests", 502: "Bad Gateway", 503: "Service Unavailable"}
CARRIED = ("host", "upgrade", "connection", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol")


class View:
    """The VNC connections of a gateway: to screens, and to streams of a part of them."""

    def __init__(self, layout: Layout) -> None:
        self.streams: dict[int, Stream] = {}
        self.drivers: dict[str, str] = {}  # desktop -> session
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._count = 0
        self._link = ViewLink(layout.streams_socket, self)
        self._heralds = Heralds()
        self._lookouts = Lookouts(self._link.looked)
        self._halters = Halters(self._link.halted)
        self._endings = Endings()

    async def run(self, port: int) -> None:
        """Serve on loopback until told to stop."""
        server = await asyncio.start_server(self._handle, "127.0.0.1", port, limit=HEAD_LIMIT, backlog=512)
        keeper = asyncio.create_task(self._link.keep())
        systemd.notify("READY=1")
        async with server:
            try:
                await server.serve_forever()
            finally:
                keeper.cancel()

    def close(self, session: str) -> None:
        """End all connections of a session."""
        for stream in list(self.streams.values()):
            if stream.session == session and stream.task is not None:
                stream.task.cancel()

    def hide(self, private: dict[str, tuple[str, int]]) -> None:
        """Have the services of these desktops, and of no other, know that a person wants privacy."""
        self._heralds.send(private)

    def look_out(self, awaited: dict[str, dict[str, tuple[str, int]]]) -> None:
        """Look which of these routes answer, for as long as somebody waits for their desktops."""
        self._lookouts.send(awaited)

    def halt(self, halted: dict[str, tuple[str, int, bool]]) -> None:
        """Have these desktops halt what their agents run (true), or let them go on (false)."""
        self._halters.send(halted)

    def let_go(self, ended: dict[str, tuple[str, int, tuple[str, ...]]]) -> None:
        """Have the services of these desktops let go what these sessions hold, which are over."""
        self._endings.send(ended)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the other side left, or never said what it wanted
        except asyncio.CancelledError:
            writer.transport.abort()  # told to close: nothing that waits to be sent goes out any more
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, names = _parsed(head)
        session, desktop = names.get("x-deskyard-session", ""), names.get("x-deskyard-desktop", "")
        address, shows = names.get("x-deskyard-address", ""), names.get(STREAM_HEADER, "")
        # A stream is looked at, also by who drives: it has no place for what acts.
        sieve = Filter(lambda: not shows and self.drives(session, desktop))
        self._count += 1
        stream = Stream(self._count, session, desktop, address, shows, sieve, asyncio.current_task())
        try:
            where = await self._link.open(stream)
        except Refused as refused:
            writer.write(_answer(refused.status))
            await writer.drain()
            return
        self.streams[stream.number] = stream
        reason, flood = CLOSED, False
        try:
            reason = await self._carry(stream, where, _forwarded(request, names, stream), reader, writer)
        except ProtocolError as error:
            # The page learns that it was its own doing.
            writer.write(bytes([0x80 | CLOSE, 2]) + error.close_code.to_bytes(2, "big"))
            reason, flood = str(error), isinstance(error, Flood)
            print(f"connection ended: session={stream.session} reason={reason}", file=sys.stderr, flush=True)
        finally:
            del self.streams[stream.number]
            self._link.closed(stream, reason, flood=flood)

    def drives(self, session: str, desktop: str) -> bool:
        """Whether what this session does reaches the desktop."""
        return self.drivers.get(desktop) == session

    async def _carry(
        self,
        stream: Stream,
        where: tuple[str, int],
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> str:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                far_reader, far_writer = await asyncio.open_connection(*where, limit=CHUNK)
        except (OSError, TimeoutError):
            writer.write(_answer(502))
            await writer.drain()
            return SILENT
        turn = self._turns[stream.desktop]
        up = asyncio.create_task(_sift(reader, far_writer, stream.filter, turn))
        down = asyncio.create_task(_pour(far_reader, writer, turn))
        try:
            far_writer.write(head)
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if up.done() and (error := up.exception()):
                raise error
        finally:
            up.cancel()
            down.cancel()
            far_writer.close()
        return CLOSED


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: asyncio.Lock) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            async with turn:
                writer.write(data)
                await _others()
            await writer.drain()


async def _sift(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sieve: Filter, turn: asyncio.Lock) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(TURN):
            async with turn:
                writer.write(sieve.feed(data))
                await _others()
            await writer.drain()


async def _others() -> None:
    """Let the loop go round: a reader whose buffer is not empty and a writer whose buffer is not full never wait."""
    await asyncio.sleep(0)


def _parsed(head: str) -> tuple[str, dict[str, str]]:
    request, *lines = head.split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return request, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _forwarded(request: str, names: dict[str, str], stream: Stream) -> bytes:
    """The headers that the desktop gets to see: no compression that would hide messages.

    The service of streams hears whose connection it is, and that it may see; the VNC server hears neither.
    """
    lines = [f"{name}: {names[name]}" for name in CARRIED if name in names]
    if stream.shows:
        lines += [f"{SESSION_HEADER}: {stream.session}", f"{SCOPES_HEADER}: {SEE}"]
    return "\r\n".join([request, *lines, "", ""]).encode("latin-1")


def _answer(status: int) -> bytes:
    return f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def serve(layout: Layout) -> None:
    """Serve until told to stop."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(View(layout).run(layout.view_port))
