"""Holds connections until a person answers, and carries those that were allowed back to the second HAProxy.

This process has no network: connections come to it, and leave it, over unix sockets of the second HAProxy, which
reads, resolves and checks each name itself.
"""

import asyncio
import contextlib
import re
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from deskyard.errors import GatewayError
from deskyard.gateway.egress.ask import first_bytes, said
from deskyard.gateway.egress.ask.first_bytes import Peer, Unreadable
from deskyard.gateway.egress.ask.tickets import Book, Ticket, TooMany
from deskyard.gateway.egress.refusals import RULES
from deskyard.gateway.machine.layout import Layout
from deskyard.wire.egress_list import NAME
from deskyard.wire.egress_rules import ASK_PAGE
from deskyard.wire.gateway_settings import Settings, parse

HELD_PER_DESKTOP = 16
CARRIED_PER_DESKTOP = 64
CONNECTIONS = 512  # of all desktops, held and carried; each takes some 100 KiB at most
FIRST_SECONDS = 5
BUFFER_BYTES = 16 * 1024
EARLY_BYTES = 32 * 1024  # what a desktop may send before it has an answer
_NAME = re.compile(NAME + r"\Z")


class Refused(Exception):
    """A connection that does not pass: the word of the rule, and a person's reason."""

    def __init__(self, rule: str, reason: str = "") -> None:
        super().__init__(rule)
        self.rule = rule
        self.reason = f"{RULES[rule]}: {reason}" if reason else RULES[rule]


class Hold:
    """The connections of all desktops that wait, and those that were released."""

    def __init__(self, layout: Layout, book: Book) -> None:
        self._layout = layout
        self._book = book
        self._settings: Settings | None = None
        self._stamp = 0
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, dict[asyncio.Event, float]] = defaultdict(dict)
        self._passing: dict[str, set[asyncio.Task[object]]] = defaultdict(set)
        self._events = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._events.setblocking(False)

    async def serve(self) -> asyncio.Server:
        """Listen where the second HAProxy brings connections."""
        path = self._layout.hold_socket
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._connection, str(path), limit=BUFFER_BYTES)
        # The folder's group, which the router has, is the socket's.
        path.chmod(0o660)
        return server

    def held(self, ticket: Ticket) -> list[float]:
        """When each connection that waits for the answer to a ticket will be refused."""
        return list(self._waiting.get(ticket.id, {}).values())

    def answered(self, ticket: Ticket) -> None:
        """Wake what waits for this answer; what passes ends if the answer is no."""
        for event in self._waiting.get(ticket.id, ()):
            event.set()
        if ticket.state(self._book.now()) == "refused":
            for task in self._passing.get(ticket.id, ()):
                task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                peer = await first_bytes.peer_of(reader)
                path = ""
                if peer.port == 443:
                    first, name = await first_bytes.hello_of(reader)
                else:
                    first, name, path = await first_bytes.request_of(reader)
            desktop = self._desktop(peer.address)
            if not _NAME.match(name) or desktop is None:
                raise Unreadable
            if name == ASK_PAGE:
                tickets = self._book.of(desktop, path or None)
                writer.write(said.page(tickets, self._book.now(), self._layout.hold_seconds, path))
                await writer.drain()
            else:
                await self._judge(peer, desktop, name, bytearray(first), reader, writer)
        except (Unreadable, TimeoutError, asyncio.IncompleteReadError, OSError):
            pass  # what HAProxy would not have sent, or a desktop that left
        finally:
            writer.close()

    async def _judge(
        self,
        peer: Peer,
        desktop: str,
        name: str,
        first: bytearray,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Let it wait, then carry it or say why not."""
        try:
            with self._counted(desktop):
                ticket = await self._admitted(peer, desktop, name, first, reader)
                await self._carry(ticket, peer, first, reader, writer)
        except Refused as refused:
            self._say("refusal", peer, name, refused.rule, "-")
            writer.write(said.refusal(peer.port, name, refused.reason))
            await writer.drain()

    @contextlib.contextmanager
    def _counted(self, desktop: str) -> Iterator[None]:
        """Count a connection of a desktop; one more than it may have is refused before anything is kept of it."""
        if self._open[desktop] >= CARRIED_PER_DESKTOP or self._open.total() >= CONNECTIONS:
            raise Refused("held")
        self._open[desktop] += 1
        try:
            yield
        finally:
            self._open[desktop] -= 1

    async def _admitted(
        self, peer: Peer, desktop: str, name: str, first: bytearray, reader: asyncio.StreamReader
    ) -> Ticket:
        """The ticket that lets this connection pass, when a person has answered; raises `Refused`."""
        end = time.monotonic() + self._layout.hold_seconds
        again = False
        while True:
            ticket = self._ticket(peer, desktop, name, again)
            state, again = ticket.state(self._book.now()), True
            if state == "allowed":
                self._book.use(ticket)
                return ticket
            if state == "refused":
                raise Refused("refused", ticket.answer.reason if ticket.answer else "")
            if sum(len(self._waiting.get(own.id, ())) for own in self._book.of(desktop)) >= HELD_PER_DESKTOP:
                raise Refused("held")
            await self._wait(ticket, first, reader, end - time.monotonic())

    def _ticket(self, peer: Peer, desktop: str, name: str, again: bool) -> Ticket:
        try:
            ticket = self._book.meet(desktop, peer.address, name, peer.port, again=again)
        except TooMany as error:
            raise Refused("tickets") from error
        if ticket.answer is None and ticket.tries == 1 and ticket.id not in self._waiting:
            self._say("ticket", peer, name, "ticket", ticket.id)
        return ticket

    async def _wait(self, ticket: Ticket, first: bytearray, reader: asyncio.StreamReader, seconds: float) -> None:
        event = asyncio.Event()
        self._waiting[ticket.id][event] = time.time() + seconds
        self._book.changed(ticket)
        answered, gone = asyncio.create_task(event.wait()), asyncio.create_task(_gone(reader, first))
        try:
            await asyncio.wait((answered, gone), timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return
            if gone.done():
                raise ConnectionResetError
            raise Refused("unanswered")
        finally:
            answered.cancel()
            gone.cancel()
            del self._waiting[ticket.id][event]
            if not self._waiting[ticket.id]:
                del self._waiting[ticket.id]
            self._book.changed(ticket)

    async def _carry(
        self,
        ticket: Ticket,
        peer: Peer,
        first: bytearray,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        path = str(self._layout.released_socket(peer.port))
        onward, outward = await asyncio.open_unix_connection(path, limit=BUFFER_BYTES)
        for end in (writer, outward):
            end.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        outward.write(peer.header(ticket.name) + first)
        task: asyncio.Task[object] = asyncio.ensure_future(_both(reader, outward, onward, writer))
        self._passing[ticket.id].add(task)
        try:
            # It ends with its two ends, with its time, or when a person takes the answer back.
            await asyncio.wait((task,), timeout=ticket.ends(self._book.now()))
            if task.done() and not task.cancelled():
                task.exception()
        finally:
            task.cancel()
            outward.close()
            self._passing[ticket.id].discard(task)
            if not self._passing[ticket.id]:
                del self._passing[ticket.id]

    def _say(self, kind: str, peer: Peer, name: str, word: str, what: str) -> None:
        """Tell the watcher, in the words of the second HAProxy's log; if it is away, that is lost."""
        line = f"{kind} {peer.address} {peer.own} {peer.port} {name} {word} {what}"
        with contextlib.suppress(OSError):
            self._events.sendto(line.encode(), str(self._layout.egress_watch / "events.sock"))

    def _desktop(self, address: str) -> str | None:
        settings = self._current()
        names = {desktop.address: desktop.name for desktop in settings.desktops} if settings else {}
        return names.get(address)

    def _current(self) -> Settings | None:
        path: Path = self._layout.settings_file
        try:
            stamp = path.stat().st_mtime_ns
            if stamp != self._stamp:
                self._settings, self._stamp = parse(path.read_text()), stamp
        except (OSError, GatewayError):
            return None
        return self._settings


async def _gone(reader: asyncio.StreamReader, first: bytearray) -> None:
    """Return when the desktop leaves; keep what it sends meanwhile."""
    while len(first) < EARLY_BYTES:
        data = await reader.read(EARLY_BYTES - len(first))
        if not data:
            return
        first += data
    await asyncio.Event().wait()


async def _both(
    reader: asyncio.StreamReader,
    outward: asyncio.StreamWriter,
    onward: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Carry bytes both ways until both ends have said all."""
    copies = [asyncio.create_task(_copy(reader, outward)), asyncio.create_task(_copy(onward, writer))]
    try:
        await asyncio.gather(*copies)
    finally:
        for copy in copies:
            copy.cancel()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(BUFFER_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
