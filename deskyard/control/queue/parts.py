"""The tools that an agent used and the tokens that it claims, beside its text: bounded before they are kept.

All of it comes from a desktop, which may say anything and as much as it likes.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from deskyard.plan.printable import printable

MOST_TOOLS, MOST_COUNTED = 100, 10_000
MOST_ID, MOST_NAME = 100, 80
# Less than the desktop's program sends, so that what was cut there is longer than these, and is said to be cut.
MOST_ARGUMENTS, MOST_OUTPUT = 280, 600
# The database refuses a number above it.
MOST_TOKENS = 10**9
TOKENS = ("input", "output", "cached")
STATES = {"started": "running", "done": "done", "failed": "failed"}
# PostgreSQL keeps neither.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
MARK = "\ufffd"


def storable(text: str) -> str:
    """The text as the database can keep it."""
    return UNSTORABLE.sub(MARK, text)


class Tools:
    """The tools of a turn in the order of their begin, each as a card."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Any]] = {}
        self._more: set[str] = set()

    @property
    def cards(self) -> list[dict[str, Any]]:
        """The cards that are kept."""
        return list(self._kept.values())

    @property
    def more(self) -> int:
        """How many tools were used beside those, as far as they were counted."""
        return len(self._more)

    def hear(self, said: Mapping[str, Any]) -> None:
        """Take in what is new of a tool."""
        id, state = line(said.get("id"), MOST_ID), STATES.get(str(said.get("state")))
        if state is None:
            return
        if id not in self._kept and len(self._kept) == MOST_TOOLS:
            if len(self._more) < MOST_COUNTED:
                self._more.add(id)
            return
        now = datetime.now(UTC).isoformat()
        fresh = {"id": id, "name": line(said.get("name"), MOST_NAME), "state": "running", "started_at": now}
        card = self._kept.setdefault(
            id, {**fresh, "ended_at": None, "arguments": "", "arguments_cut": False, "output": "", "output_cut": False}
        )
        if card["ended_at"] is None:
            card |= {"state": state, "ended_at": None if state == "running" else now}
        for theirs, ours, most in (("summary", "arguments", MOST_ARGUMENTS), ("output", "output", MOST_OUTPUT)):
            if (text := said.get(theirs)) is not None:
                shown = printable(str(text), most=most, keep="\n\t", mark=MARK)
                card |= {ours: shown, f"{ours}_cut": len(str(text)) > most}


# Of a turn that is over nothing more is heard, also if whoever wrote it down was killed.
LEFT = {"running": "interrupted", "open": "lapsed"}


def settled(card: Mapping[str, Any], turn: str) -> dict[str, Any]:
    """A tool or a question of a message, as it stands by the state of its turn."""
    state = card["state"]
    return {**card, "state": state if turn == "streaming" else LEFT.get(state, state)}


def tokens(said: Mapping[str, Any]) -> dict[str, int] | None:
    """The tokens that a turn is claimed to have taken; None if that is no claim that can be counted."""
    found = {name: said.get(name, 0) for name in TOKENS}
    counted = {name: number for name, number in found.items() if type(number) is int and 0 <= number <= MOST_TOKENS}
    return counted if len(counted) == len(TOKENS) else None


def line(text: Any, most: int) -> str:
    """The text as it can be kept and shown in a line, cut after `most` characters."""
    return printable(str(text), most=most, mark=MARK)
