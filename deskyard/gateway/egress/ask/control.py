"""The private line of what holds connections: root lists tickets, follows them and answers them."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.egress.ask import deciders, proof
from deskyard.gateway.egress.ask.hold import Hold
from deskyard.gateway.egress.ask.proof import Signature
from deskyard.gateway.egress.ask.tickets import Book, Ticket
from deskyard.gateway.machine import systemd
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.private_socket import asking_user, is_private, listen

LIMIT = 65536
ASK_SECONDS = 10.0
PACE_SECONDS = 0.2  # between two looks of a follower at what changed, however often it does
FOLLOWERS = 16


class Control:
    """Answers root, on a socket that nobody else opens."""

    def __init__(self, layout: Layout, book: Book, hold: Hold) -> None:
        self._layout = layout
        self._book = book
        self._hold = hold
        self._followers: list[tuple[dict[str, None], asyncio.Event]] = []
        book.changed = self._changed

    async def serve(self, path: Path) -> asyncio.Server:
        """Listen on `path`."""
        return await listen(self._asked, path, LIMIT)

    def _changed(self, ticket: Ticket) -> None:
        for changed, event in self._followers:
            changed[ticket.id] = None
            event.set()

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not is_private(user := asking_user(writer)):
                raise GatewayError("user", user, "may not answer for people", "use root")
            async with asyncio.timeout(ASK_SECONDS):
                request = json.loads(await reader.readline())
            if request["command"] == "follow":
                await self._follow(reader, writer)
            else:
                _write(writer, {"result": self._dispatch(request)})
        except GatewayError as error:
            _write(writer, {"error": error.as_dict()})
        except (ValueError, KeyError, TypeError, TimeoutError) as error:
            wrong = GatewayError("request", type(error).__name__, "is malformed", "use deskyard-gateway")
            _write(writer, {"error": wrong.as_dict()})
        except OSError as error:
            reason = f"cannot be written down: {error.strerror}; nothing was allowed"
            _write(writer, {"error": GatewayError("ticket", None, reason, "make room in the gateway").as_dict()})
        finally:
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.close()

    def _dispatch(self, request: dict[str, Any]) -> Any:
        match request["command"]:
            case "list":
                return [self._shown(ticket) for ticket in self._book.all()]
            case "ticket":
                return self._shown(self._book.answerable(request["ticket"]))
            case "judge":
                ticket = self._book.answerable(request["ticket"])
                signatures = self._signatures(ticket, request["answer"], request["proofs"])
                return {"actor": proof.actor(signatures), "signed": proof.shown(signatures)}
            case "decide":
                return self._decide(request)
        raise GatewayError("command", request["command"], "is not known", "use deskyard-gateway")

    def _decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put an answer in force: one in a person's name opens nothing unless that person signed it."""
        id, reason = request["ticket"], request["reason"]
        if "proofs" in request:
            signatures = self._signatures(self._book.answerable(id), request["answer"], request["proofs"])
            challenges = [signature.challenge for signature in signatures]
            answer = proof.ANSWERS[request["answer"]]
            ticket = self._book.decide(id, *answer, proof.actor(signatures), reason, challenges)
        else:
            proof.require_no_person(request["verdict"], request["actor"])
            ticket = self._book.decide(id, request["verdict"], request["seconds"], request["actor"], reason)
        self._hold.answered(ticket)
        return self._shown(ticket)

    def _signatures(self, ticket: Ticket, answer: str, proofs: Any) -> list[Signature]:
        list_in_force, workspace = deciders.load(self._layout), in_force(self._layout).workspace
        return proof.require(list_in_force, workspace, ticket, answer, proofs, self._book.now())

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write every ticket, then each that changes, until the asking side leaves."""
        if len(self._followers) >= FOLLOWERS:
            raise GatewayError("follow", len(self._followers), "follow already", "end one that is not needed")
        changed: dict[str, None] = {ticket.id: None for ticket in self._book.all()}
        event = asyncio.Event()
        mine = (changed, event)
        self._followers.append(mine)
        left = asyncio.create_task(reader.read(1))
        try:
            while not left.done():
                event.clear()
                tickets = [ticket for ticket in self._book.all() if ticket.id in changed]
                changed.clear()
                for ticket in tickets:
                    _write(writer, self._shown(ticket))
                await writer.drain()
                await asyncio.wait((left,), timeout=PACE_SECONDS)
                news = asyncio.create_task(event.wait())
                await asyncio.wait((left, news), return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
        finally:
            left.cancel()
            self._followers.remove(mine)

    def _shown(self, ticket: Ticket) -> dict[str, Any]:
        return ticket.shown(self._book.now(), self._hold.held(ticket))


def _write(writer: asyncio.StreamWriter, document: Any) -> None:
    writer.write(json.dumps(document).encode() + b"\n")


def run(layout: Layout) -> None:
    """Hold connections until told to stop (its unit does)."""

    async def main() -> None:
        book = Book(layout.tickets_file)
        hold = Hold(layout, book)
        control = await Control(layout, book, hold).serve(layout.ask_socket)
        connections = await hold.serve()
        systemd.notify("READY=1")
        async with control, connections:
            await asyncio.gather(control.serve_forever(), connections.serve_forever())

    asyncio.run(main())
