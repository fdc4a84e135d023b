"""Carries the chats on the pages of gateways: what people say there is stored, and what agents answer is shown.

A gateway speaks for the pages of its own desktops and for no others; the database takes a message from here by one
function, and shows of a desktop its newest conversation.
"""

import json
import logging
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg

from deskyard.control.ground.threads import Threads
from deskyard.control.queue.parts import settled
from deskyard.control.store.connection import Link, attend
from deskyard.control.store.pool import pool
from deskyard.errors import DeskyardError
from deskyard.host.deadline import Deadline
from deskyard.wire.gateway_settings import LABEL
from deskyard.wire.talk import MOST_MESSAGES, MOST_NEWS, MOST_REQUEST, Talk

# This often all is looked at, whatever was heard.
LOOK_SECONDS = 30.0
# Between two looks, however much happens.
PAUSE_SECONDS = 0.2
# A gateway that went away tells nobody when it is back; one of before has no chat, and is asked less and less often.
AGAIN_SECONDS, MOST_SECONDS = 2.0, 120.0
RUNNING = ("ready", "not ready")
MOST_TEXT, MOST_TOOLS, MOST_SHOWN = 8000, 20, 500
MOST_DESKTOPS = 1000
# Heard in place of a desktop: any conversation may have changed.
ANY = ""
# No audit has so many lines.
FAR = 1 << 60
REFUSED = {
    "message": ("is empty or too long", "write a shorter one; longer ones are sent in Mission Control"),
    "request": ("was used for another message", "load the page again"),
    "desktop": ("is not there any more", "ask who gave you the link"),
    "queue": ("has as many messages as may wait for the agent", "wait for an answer, or stop the turn"),
    "conversation": ("is not one of this desktop's", "begin a new one"),
    "turn": ("is over already", "nothing is to be done"),
}
log = logging.getLogger(__name__)


class Line(Protocol):
    """An open line to a gateway: its documents, and a way to send some back."""

    def __iter__(self) -> Iterator[Any]: ...

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a document, without waiting for it to be read."""


Open = Callable[[str], AbstractContextManager[Line]]


@dataclass
class Carried:
    """An open line, with the desktops that somebody looks at and what each was shown last."""

    line: Line
    open: frozenset[str] = frozenset()
    shown: dict[str, Talk] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look_at(self, desktops: frozenset[str]) -> None:
        """Somebody looks at these by now: who comes again is shown the whole."""
        with self.lock:
            self.open = desktops
            self.shown = {name: talk for name, talk in self.shown.items() if name in desktops}

    def show(self, desktop: str, talk: Talk) -> None:
        """Send what is new of a conversation, if there is anything."""
        with self.lock:
            before = self.shown.get(desktop)
            if desktop in self.open and talk != before:
                self.line.send({"desktop": desktop, "talk": talk.news(before)})
                self.shown[desktop] = talk


class Chats:
    """The lines to all gateways that run; `open` opens one."""

    def __init__(self, url: str, open: Open) -> None:
        self._url, self._open = url, open
        self._pool = pool(url)
        self._threads = Threads(self._carry)
        self._carried: dict[str, Carried] = {}
        self._pauses: dict[str, float] = {}
        # The desktops whose conversations changed since they were read.
        self._changed: set[str] = set()
        self._ended = threading.Event()
        # Rung when somebody begins to look: nothing in the database tells of that.
        self._bell = os.eventfd(0, os.EFD_NONBLOCK)

    def stop(self, *_: Any) -> None:
        """Carry no more."""
        self._ended.set()
        os.eventfd_write(self._bell, 1)

    def run(self) -> None:
        """Carry until stopped; a database that went away is waited for."""
        with self._pool:
            attend(self._url, self._ended, self._work)

    def _work(self, link: Link) -> None:
        link.execute("listen talk")
        looks = Deadline(0)
        while not self._ended.is_set():
            if looks.is_over:
                self._begin(link)
                self._changed.add(ANY)
                looks = Deadline(LOOK_SECONDS)
            self._show(link)
            select.select([link.fileno(), self._bell], [], [], looks.left)
            self._ended.wait(PAUSE_SECONDS)
            self._drain(link)

    def _drain(self, link: Link) -> None:
        """Note what changed, and that it rang: the next look sees all of it."""
        self._changed.update(each.payload for each in link.notifies(timeout=0))
        if select.select([self._bell], [], [], 0)[0]:
            os.eventfd_read(self._bell)

    def _begin(self, link: Link) -> None:
        """Begin to carry what runs and is not carried yet."""
        query = "select id from workspace where gone_at is null and state = any(%s)"
        self._threads.begin(row["id"] for row in link.execute(query, [list(RUNNING)]).fetchall())

    def _show(self, link: Link) -> None:
        changed, self._changed = self._changed, set()
        for workspace, carried in list(self._carried.items()):
            for desktop in sorted(carried.open):
                id = f"{workspace}.{desktop}"
                if ANY in changed or id in changed or desktop not in carried.shown:
                    carried.show(desktop, read(link, id))

    def _carry(self, name: str) -> None:
        while not self._ended.is_set():
            try:
                with self._open(name) as line:
                    carried = self._carried[name] = Carried(line)
                    for document in line:
                        self._pauses.pop(name, None)
                        self._hear(name, carried, document)
            except (DeskyardError, psycopg.Error) as error:
                log.info("the chats of %s are not carried now: %s", name, str(error).splitlines()[0])
            finally:
                self._carried.pop(name, None)
            pause = self._pauses.get(name, AGAIN_SECONDS)
            self._pauses[name] = min(pause * 2, MOST_SECONDS)
            self._ended.wait(pause)
            if pause >= LOOK_SECONDS:
                # Whether it runs still is for the next look.
                return

    def _hear(self, name: str, carried: Carried, document: Any) -> None:
        match document:
            case {"open": list(desktops)} if len(desktops) <= MOST_DESKTOPS:
                carried.look_at(frozenset(each for each in desktops if _is_desktop(each)))
                os.eventfd_write(self._bell, 1)
            case {"wish": {"id": str(id), "desktop": str(desktop)} as wish} if _is_desktop(desktop):
                with self._pool.connection() as link:
                    carried.line.send({"answer": id, **answer(link, f"{name}.{desktop}", wish)})
            case _:
                log.warning("%s says on the line of its chats what is none of it", name)


def read(link: Link, desktop: str) -> Talk:
    """The newest conversation of a desktop, as its page shows it."""
    query = "select talk_at_gateway(%s, %s, %s) as talk"
    row = link.execute(query, [desktop, MOST_MESSAGES, MOST_TEXT]).fetchone()
    found = row and row["talk"]
    if not found:
        return Talk()
    newest: list[dict[str, Any]] = []
    room = MOST_NEWS // 2
    for message in map(shown, reversed(found["messages"])):
        # With what stands between two in a list.
        room -= len(json.dumps(message, ensure_ascii=False).encode()) + 2
        if room < 0:
            break
        newest.append(message)
    return Talk(found["conversation"], found["title"], {message["id"]: message for message in reversed(newest)})


def shown(found: Mapping[str, Any]) -> dict[str, Any]:
    """A message as a page shows it: of tools and questions what a person reads at first sight."""
    turn = found["state"]
    tools = [
        {
            "name": tool["name"],
            "state": settled(tool, turn)["state"],
            "arguments": tool["arguments"][:MOST_SHOWN],
            "output": tool["output"][:MOST_SHOWN],
        }
        for tool in found["tools"][:MOST_TOOLS]
    ]
    questions = [{"asked": each["asked"], "state": settled(each, turn)["state"]} for each in found["questions"]]
    more = found["more_tools"] + max(0, len(found["tools"]) - MOST_TOOLS)
    names = ("id", "role", "author", "text", "cut", "state", "at", "problem")
    return {**{name: found[name] for name in names}, "tools": tools, "more_tools": more, "questions": questions}


def answer(link: Link, desktop: str, wish: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a page wishes, and say what came of it."""
    match wish:
        case {
            "id": str(id),
            "line": int(line),
            "actor": str(actor),
            "message": str(message),
            "conversation": str() | None as conversation,
        } if _fits(message) and line < FAR:
            query = "select say_at_gateway(%s, %s, %s, %s, %s, %s) as done"
            row = link.execute(query, [desktop, actor, id, line, conversation, message]).fetchone()
            done = row["done"] if row else {}
        case {"actor": str(actor), "message": None, "conversation": str(conversation)}:
            query = "select interrupt_at_gateway(%s, %s, %s) as done"
            row = link.execute(query, [desktop, actor, conversation]).fetchone()
            done = {"conversation": conversation} if row and row["done"] else {"refused": "turn"}
        case _:
            done = {"refused": "message"}
    if (what := done.get("refused")) is None:
        return {"result": done}
    reason, remedy = REFUSED[what]
    return {"error": {"field": what, "reason": reason, "remedy": remedy}}


def _fits(message: str) -> bool:
    # PostgreSQL keeps no NUL.
    return "\0" not in message and len(message.encode("utf-8", "replace")) <= MOST_REQUEST


def _is_desktop(said: Any) -> bool:
    return isinstance(said, str) and LABEL.match(said) is not None
