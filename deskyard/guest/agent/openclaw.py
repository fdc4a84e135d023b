"""OpenClaw's gateway protocol, version 4: a turn of a conversation with its text, tools, tokens and questions.

Sent together with each program that imports it, so it knows only the standard library of Python 3.10 and later. The
turn has the id of its message: one that is given twice is done once, and the second time its answer is read again.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deskyard.guest.agent.approvals import CAPABILITY, Approvals
from deskyard.guest.agent.device import CLIENT, ROLE, SCOPES, identity, key
from deskyard.guest.agent.turn import MAX_EXCERPT, MAX_REASON, MAX_SUMMARY, Failed, Watch, pieces, say
from deskyard.guest.agent.web_socket import NoWebSocket, WebSocket

PROTOCOL = 4
HISTORY = 200
STATES = {"start": "started", "update": "started", "result": "done"}
KEY_ERROR = re.compile(r"\bAPI key\b|\bsecret reference\b|\b401\b|authentication", re.IGNORECASE)


class Older(Exception):
    """The gateway does not speak this protocol with us; nothing was asked of it yet."""


class Gateway:
    """A connection that the gateway has let in."""

    def __init__(self, socket: WebSocket, token: str, home: Path, *, answers: bool = False) -> None:
        self._socket, self._count = socket, 0
        self.waiting: list[dict[str, Any]] = []
        try:
            challenge = self._next()
            if challenge.get("event") != "connect.challenge":
                raise Older("it says no challenge")
            proof = identity(key(home), token, challenge["payload"])
            versions = {"minProtocol": PROTOCOL, "maxProtocol": PROTOCOL}
            # Where nobody says that they can answer, what would have to be asked is refused by OpenClaw at once.
            can = ["tool-events", *([CAPABILITY] if answers else [])]
            who = {"client": CLIENT, "role": ROLE, "scopes": list(SCOPES), "caps": can}
            self.ask("connect", {**versions, **who, "auth": {"token": token}, "device": proof})
        except (OSError, subprocess.SubprocessError, KeyError, TypeError, ValueError) as error:
            raise Older(f"{type(error).__name__}: {error}"[:MAX_REASON]) from None
        except Failed as failure:
            raise Older(failure.said) from None

    def tell(self, method: str, params: dict[str, Any]) -> str:
        """Ask for something without waiting for the answer; its id."""
        self._count += 1
        id = f"{method}-{self._count}"
        self._socket.send(json.dumps({"type": "req", "id": id, "method": method, "params": params}))
        return id

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; what is said meanwhile is kept."""
        id = self.tell(method, params)
        while True:
            frame = self._next()
            if frame.get("type") == "res" and frame.get("id") == id:
                if not frame.get("ok"):
                    error = frame.get("error") or {}
                    raise Failed("agent", f"{error.get('code')} {error.get('message')}"[:MAX_REASON])
                return dict(frame.get("payload") or {})
            self.waiting.append(frame)

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The name and content of what the gateway tells, to the end of the connection."""
        while True:
            frame = self.waiting.pop(0) if self.waiting else self._next()
            if frame.get("type") == "event" and isinstance(frame.get("payload"), dict):
                yield str(frame.get("event")), frame["payload"]

    def _next(self) -> dict[str, Any]:
        message = self._socket.receive()
        if message is None:
            raise Failed("broken", "its gateway ended the connection")
        frame = json.loads(message)
        return frame if isinstance(frame, dict) else {}


def converse(socket: WebSocket, token: str, request: dict[str, Any], watch: Watch, home: Path) -> None:
    """Give the agent the task, and say what it does; raises `Older` before it has begun."""
    permissions = request.get("permissions", "")
    gateway = Gateway(socket, token, home, answers=bool(permissions))
    session, id = request["session"], request["id"]

    def abort() -> None:
        gateway.tell("chat.abort", {"sessionKey": session, "runId": id})

    watch.before = abort
    if watch.over.is_set():
        raise Failed("over")
    sending = {"sessionKey": session, "message": request["text"], "idempotencyKey": id}
    answer = gateway.ask("chat.send", sending)
    say("begin")
    turn = Turn(str(answer.get("runId") or id), Approvals(gateway, watch, permissions))
    # "ok" is the answer to a message that was done before: what came of it stands in the history.
    if answer.get("status") != "ok":
        try:
            for name, payload in gateway.events():
                if turn.hear(name, payload):
                    break
        finally:
            turn.close()
    history = gateway.ask("chat.history", {"sessionKey": session, "limit": HISTORY})
    turn.reconcile(history.get("messages") or [], id)


class Turn:
    """The record of what was said of a turn so far."""

    def __init__(self, run: str, approvals: Approvals | None = None) -> None:
        self.run, self.text, self._approvals = run, "", approvals
        self.seen: dict[str, int] = {}

    def hear(self, name: str, payload: dict[str, Any]) -> bool:
        """Say what an event is about; whether the turn is over with it."""
        request = payload.get("request") or {}
        if self._approvals is not None and request.get("runId") == self.run and self._approvals.hear(name, payload):
            return False
        if name.endswith(".approval.requested"):
            asked = str(request.get("command") or request.get("title") or "")[:MAX_SUMMARY]
            say("approval", id=str(payload.get("id")), kind=name.partition(".")[0], asked=asked)
        if payload.get("runId") != self.run:
            return False
        if name in ("agent", "session.tool") and payload.get("stream") == "tool":
            # Both names may tell the same: what has been said is not said again.
            number = int(payload.get("seq") or 0)
            if number > self.seen.get("tool", 0):
                self.seen["tool"] = number
                tool(payload.get("data") or {})
        return name == "chat" and self._chat(payload)

    def close(self) -> None:
        """Leave nothing asked."""
        if self._approvals is not None:
            self._approvals.close()

    def _chat(self, payload: dict[str, Any]) -> bool:
        match payload.get("state"):
            case "delta":
                new, whole = str(payload.get("deltaText") or ""), text(payload.get("message"))
                # Who comes late, or is told anew, hears the whole; what has been said cannot be unsaid.
                if payload.get("replace") or not self.text:
                    self._whole(whole or new)
                else:
                    self._more(new)
            case "final":
                self._whole(text(payload.get("message")))
                return True
            case "aborted":
                raise Failed("over")
            case "error":
                said = str(payload.get("errorMessage") or "")[:MAX_REASON]
                wrong = KEY_ERROR.search(said)
                raise Failed("key" if wrong else "agent", said)
        return False

    def _more(self, new: str) -> None:
        self.text += new
        for piece in pieces(new):
            say("text", text=piece)

    def _whole(self, whole: str) -> None:
        """Say the part of the whole text that was not said yet."""
        if whole.startswith(self.text):
            self._more(whole[len(self.text) :])

    def reconcile(self, rows: list[dict[str, Any]], id: str) -> None:
        """Say what the history knows of this turn: the tokens it claims, and the text if it was not heard."""
        ours = since(rows, id)
        spoken = [row for row in ours if row.get("role") == "assistant"]
        if not self.text:
            for row in spoken:
                self._more(text(row))
        used = [row["usage"] for row in spoken if isinstance(row.get("usage"), dict)]
        if used:
            names = {"input": "input", "output": "output", "cached": "cacheRead"}
            say("usage", **{name: sum(int(part.get(theirs) or 0) for part in used) for name, theirs in names.items()})


def since(rows: list[dict[str, Any]], id: str) -> list[dict[str, Any]]:
    """The rows that came of the message with this id: none, if the history does not know it, rather than another's."""
    for at, row in enumerate(rows):
        named = (row.get("idempotencyKey"), (row.get("__openclaw") or {}).get("idempotencyKey"))
        if row.get("role") == "user" and any(str(name or "").partition(":")[0] == id for name in named):
            later = rows[at + 1 :]
            ends = [index for index, other in enumerate(later) if other.get("role") == "user"]
            return later[: ends[0]] if ends else later
    return []


def tool(data: dict[str, Any]) -> None:
    """Say a card: what the agent's tool was asked, and what became of it."""
    state = STATES.get(str(data.get("phase")))
    if state is None:
        return
    failed = state == "done" and bool(data.get("isError"))
    card = {"id": str(data.get("toolCallId")), "name": str(data.get("name")), "state": "failed" if failed else state}
    arguments = data.get("args")
    if arguments is not None:
        card["summary"] = json.dumps(arguments, ensure_ascii=False)[:MAX_SUMMARY]
    output = text(data.get("result")) or text(data.get("partialResult"))
    if output:
        card["output"] = output[:MAX_EXCERPT]
    say("tool", **card)


def text(message: Any) -> str:
    """The text of a message or a result, however it is written down."""
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(str(part.get("text") or "") for part in texts)


def opened(link: Any, host: str) -> WebSocket:
    """The connection as a WebSocket; raises `Older`."""
    try:
        return WebSocket(link, host)
    except (NoWebSocket, OSError) as error:
        raise Older(str(error)) from None
