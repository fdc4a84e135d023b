"""The questions of OpenClaw before it runs a command: the desktop's declaration answers, or a person.

Sent together with each program that imports it, so it knows only the standard library of Python 3.10 and later.
OpenClaw asks as its own configuration says (`tools.exec.mode`), and only a client that says it can answer.
"""

import threading
from typing import Any, Protocol

from deskyard.guest.agent.turn import ASK_SECONDS, MAX_SUMMARY, Watch, say

CAPABILITY = "exec-approvals"
REQUESTED, RESOLVED, RESOLVE = "exec.approval.requested", "exec.approval.resolved", "exec.approval.resolve"
REFUSAL = "deny"
DECISIONS = {"allow": "allow-once", "refuse": REFUSAL}
# OpenClaw's decisions in the words of the Agent Client Protocol, as other agents' options have them.
OPTIONS = {
    "allow-once": ("Allow once", "allow_once"),
    "allow-always": ("Allow always", "allow_always"),
    REFUSAL: ("Deny", "reject_once"),
}


class Asker(Protocol):
    """The connection to OpenClaw."""

    def tell(self, method: str, params: dict[str, Any]) -> str:
        """Ask for something without waiting for the answer."""


class Approvals:
    """The questions of one turn: one after the other, and none stays open when the turn is over."""

    def __init__(self, gateway: Asker, watch: Watch, permissions: str) -> None:
        self._gateway, self._watch, self._permissions = gateway, watch, permissions
        self._turn = threading.Lock()  # a person is asked one thing at a time
        self._open: dict[str, threading.Thread] = {}
        self._over: set[str] = set()

    def hear(self, name: str, payload: dict[str, Any]) -> bool:
        """Take an event; whether it was one of these."""
        if not self._permissions or name not in (REQUESTED, RESOLVED):
            return False
        id, request = str(payload.get("id")), payload.get("request") or {}
        if name == RESOLVED:
            self._end(id)
            return True
        asked = str(request.get("command") or "")[:MAX_SUMMARY]
        if self._permissions in DECISIONS:
            say("approval", id=id, kind=self._permissions, asked=asked)
            self._resolve(id, DECISIONS[self._permissions])
            return True
        allowed = request.get("allowedDecisions") or list(OPTIONS)
        asking = threading.Thread(target=self._ask, args=(id, asked, [name for name in OPTIONS if name in allowed]))
        self._open[id] = asking
        asking.daemon = True
        asking.start()
        return True

    def close(self) -> None:
        """Let no question outlive the turn."""
        for id in list(self._open):
            self._end(id)
        for asking in self._open.values():
            asking.join()

    def _end(self, id: str) -> None:
        """It was answered by somebody else, or is of no use any more."""
        self._over.add(id)
        self._watch.withdraw(id)

    def _ask(self, id: str, asked: str, decisions: list[str]) -> None:
        """Let a person choose; without an answer it is a refusal."""
        with self._turn:
            if id in self._over:
                return
            options = [{"id": name, "name": OPTIONS[name][0], "kind": OPTIONS[name][1]} for name in decisions]
            say("question", id=id, asked=asked, options=options)
            chosen = self._watch.answer(id, ASK_SECONDS).get("option")
            chosen = chosen if chosen in decisions else None
            if not self._watch.over.is_set():
                say("heard", id=id, option=chosen)
            if id not in self._over:
                self._resolve(id, chosen or REFUSAL)

    def _resolve(self, id: str, decision: str) -> None:
        self._gateway.tell(RESOLVE, {"id": id, "decision": decision})
