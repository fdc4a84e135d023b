"""The chat on the pages of desktops, as a gateway has it: open pages, what they show, who waits for an answer.

Mission Control has all that was said. While its process `link` is not connected nothing can be said here, and a message
counts as sent only when Mission Control has answered that it is stored.
"""

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from deskyard.errors import GatewayError
from deskyard.gateway.page_news import Page, Pages
from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Session
from deskyard.wire.gateway_settings import Settings
from deskyard.wire.talk import Talk

PAGES_PER_SESSION = 4
PAGES = 300  # HAProxy carries a few more
WAITING_PER_SESSION = 4
ANSWER_SECONDS = 20.0  # before HAProxy gives up
ID = re.compile(r"[A-Za-z0-9_-]{8,64}\Z")
CONVERSATION = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
AGAIN = "send it again: it is stored once"

Send = Callable[[dict[str, Any]], None]


class Note(Protocol):
    """Writes one decision down; its number in the audit."""

    def __call__(self, event: str, session: Session, **facts: object) -> int: ...


@dataclass(frozen=True)
class Wish:
    """A page's wish: that its agent gets a message, or that the turn of a conversation ends."""

    id: str
    message: str | None
    conversation: str | None

    def name(self, session: Session) -> str:
        """A name for the wish that no other has: that of the page is made by a browser."""
        return f"{session.id}.{self.id}"

    def document(self, session: Session, line: int) -> dict[str, Any]:
        """The wish as Mission Control gets it; `line` of the audit proves it."""
        return {
            "id": self.name(session),
            "line": line,
            "desktop": session.desktop,
            "actor": session.actor,
            "message": self.message,
            "conversation": self.conversation,
        }


@dataclass(frozen=True)
class Asked:
    """A wish that Mission Control was sent, and the answer that its page waits for."""

    document: dict[str, Any]
    answer: "asyncio.Future[dict[str, Any]]"


class Chat:
    """The chat of all desktops of a gateway; `send` is there while Mission Control is connected."""

    def __init__(self, settings: Settings, note: Note, seconds: float = ANSWER_SECONDS) -> None:
        self._desktops = {desktop.name for desktop in settings.desktops}
        self._note = note
        self._seconds = seconds
        self._pages = Pages(PAGES_PER_SESSION, PAGES, self._looked_at)
        self._talks: dict[str, Talk] = {}
        self._waiting: dict[str, Asked] = {}
        self._send: Send | None = None

    def join(self, session: Session) -> Page:
        """Take in a page that shows its chat; raises `GatewayError` for who may only watch, or too many."""
        _require_drive(session)
        return self._pages.join(session, "show this chat already", "close one, and load this page again")

    def leave(self, page: Page) -> None:
        """A page shows its chat no longer."""
        self._pages.leave(page)

    def reader(self, page: Page) -> Callable[[], dict[str, Any] | None]:
        """A reader of what a page has not been sent yet."""
        sent: tuple[bool, Talk | None] | None = None

        def read() -> dict[str, Any] | None:
            nonlocal sent
            before, sent = sent, (self._send is not None, self._talks.get(page.session.desktop))
            if sent == before:
                return None
            connected, talk = sent
            return {"connected": connected, "talk": talk and talk.news(before[1] if before else None)}

        return read

    async def ask(self, session: Session, wish: Wish) -> dict[str, Any]:
        """Have Mission Control do what a page wishes; raises `GatewayError` if it does not, or does not answer."""
        _require_drive(session)
        name = wish.name(session)
        mine = [id for id in self._waiting if id.startswith(f"{session.id}.")]
        if name in mine or len(mine) >= WAITING_PER_SESSION:
            reason, remedy = "of this page are waiting for an answer", "wait until they have one"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "messages", reason, remedy, len(mine))
        send = self._connected()
        document = {"wish": wish.document(session, self._noted(session, wish))}
        asked = self._waiting[name] = Asked(document, asyncio.get_running_loop().create_future())
        try:
            send(document)
            async with asyncio.timeout(self._seconds):
                return await asked.answer
        except TimeoutError:
            raise Refusal(HTTPStatus.GATEWAY_TIMEOUT, "chat", "Mission Control did not answer in time", AGAIN) from None
        finally:
            del self._waiting[name]

    def _noted(self, session: Session, wish: Wish) -> int:
        """The line of the audit by which whoever delivers a message sees that it was said here."""
        if wish.message is None:
            return self._note("interrupt", session, result="passed on", id=wish.id)
        digest = hashlib.sha256(wish.message.encode()).hexdigest()
        return self._note("say", session, result="passed on", id=wish.id, digest=digest)

    def connect(self, send: Send) -> None:
        """Mission Control is connected: it hears which desktops have an open page, and what it has not answered yet."""
        self._send = send
        send({"open": self._open()})
        for asked in self._waiting.values():
            send(asked.document)
        self._pages.tell(self._desktops)

    def disconnect(self, send: Send) -> None:
        """Mission Control is not connected any more by this line; who waits for an answer gets none."""
        if self._send is not send:
            return
        self._send = None
        for asked in self._waiting.values():
            if not asked.answer.done():
                asked.answer.set_exception(_away())
        self._pages.tell(self._desktops)

    def hear(self, document: dict[str, Any]) -> None:
        """Take in what Mission Control says; raises `ValueError` for what is none of it."""
        match document:
            case {"desktop": str(desktop), "talk": dict(news)}:
                if desktop in self._open():
                    # News of before somebody came, who is shown the whole after it.
                    with contextlib.suppress(ValueError):
                        self._talks[desktop] = self._talks.get(desktop, Talk()).after(news)
                        self._pages.tell({desktop})
            case {"answer": str(id), "result": dict(result)}:
                if (answer := self._awaited(id)) is not None:
                    answer.set_result(result)
            case {"answer": str(id), "error": {"field": str(field), "reason": str(reason), "remedy": str(remedy)}}:
                if (answer := self._awaited(id)) is not None:
                    answer.set_exception(Refusal(HTTPStatus.CONFLICT, field, reason, remedy))
            case _:
                raise ValueError("says what is no part of a chat")

    def sweep(self, alive: Collection[str]) -> None:
        """Let the pages of sessions that are over end at once."""
        self._pages.sweep(alive)

    def _awaited(self, id: str) -> "asyncio.Future[dict[str, Any]] | None":
        asked = self._waiting.get(id)
        return None if asked is None or asked.answer.done() else asked.answer

    def _connected(self) -> Send:
        if self._send is None:
            raise _away()
        return self._send

    def _open(self) -> list[str]:
        return sorted(self._pages.desktops())

    def _looked_at(self) -> None:
        now = self._open()
        # What nobody looks at is not kept.
        self._talks = {desktop: talk for desktop, talk in self._talks.items() if desktop in now}
        if self._send is not None:
            self._send({"open": now})


def parse(body: bytes) -> Wish:
    """The wish in a page's request; raises `GatewayError` for what is none."""
    try:
        match json.loads(body):
            case {"id": str(id), "message": str(message), "conversation": str() | None as conversation}:
                wish = Wish(id, message.strip(), conversation)
            case {"id": str(id), "stop": str(conversation)}:
                wish = Wish(id, None, conversation)
            case _:
                raise _malformed()
    except ValueError as error:
        raise _malformed() from error
    if not ID.match(wish.id) or not (wish.conversation is None or CONVERSATION.match(wish.conversation)):
        raise _malformed()
    if wish.message == "":
        raise Refusal(HTTPStatus.BAD_REQUEST, "message", "is empty", "write what the agent is to do")
    return wish


def _malformed() -> GatewayError:
    remedy = 'send {"id": "...", "message": "...", "conversation": null}, or {"id": "...", "stop": "CONVERSATION"}'
    return Refusal(HTTPStatus.BAD_REQUEST, "request", "is malformed", remedy)


def _away() -> GatewayError:
    reason, remedy = "no Mission Control is connected to this gateway", "see ./inv control.status, or use agent.task"
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "chat", reason, remedy)


def _require_drive(session: Session) -> None:
    if session.mode != "drive":
        reason = "may only look on: it has no chat"
        raise Refusal(HTTPStatus.FORBIDDEN, "mode", reason, "ask who gave you the link", session.mode)
