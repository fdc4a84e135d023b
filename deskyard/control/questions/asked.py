"""The questions of an agent in a turn, bounded before they are kept, and how long each waits for a person."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from deskyard.host.deadline import Deadline
from deskyard.plan.printable import printable

MOST_QUESTIONS, MOST_OPTIONS = 100, 10
MOST_ID, MOST_NAME, MOST_ASKED = 100, 80, 300
WAITS_SECONDS = 600.0
# An answer that was taken in time may be a little longer on its way.
GRACE_SECONDS = 2.0
LOOK_SECONDS = 0.5
MARK = "\ufffd"
NAME = re.compile(r"q[1-9][0-9]{0,5}\Z")


class Questions:
    """The questions of a turn in their order, each as a card; at most one is open, as its agent waits."""

    def __init__(self) -> None:
        self.cards: list[dict[str, Any]] = []
        self._end, self.look = Deadline(0), Deadline(0)
        self._refused: list[str] = []

    @property
    def open(self) -> dict[str, Any] | None:
        """The question that waits."""
        return self.cards[-1] if self.cards and self.cards[-1]["state"] == "open" else None

    def hear(self, said: Mapping[str, Any]) -> None:
        """The agent asks something; what it asks beyond the bounds is refused."""
        id, options = str(said.get("id")), said.get("options")
        known = any(card["id"] == id for card in self.cards)
        if known or not NAME.match(id) or self.open is not None or len(self.cards) == MOST_QUESTIONS:
            self._refused.append(id)
            return
        seconds = said.get("seconds", WAITS_SECONDS)
        seconds = min(seconds, WAITS_SECONDS) if isinstance(seconds, int | float) and seconds > 0 else WAITS_SECONDS
        now = datetime.now(UTC)
        card = {"id": id, "asked": _shown(said.get("asked"), MOST_ASKED), "options": _options(options), "state": "open"}
        if not card["options"]:
            # Nobody could answer it: that is said, and not waited for.
            self._refused.append(id)
            card["state"], seconds = "lapsed", 0
        card |= {"asked_at": now.isoformat(), "until": (now + timedelta(seconds=seconds)).isoformat()}
        self.cards.append(card | {"option": None, "answered_by": None, "answered_at": None, "heard": False})
        self._end, self.look = Deadline(seconds + GRACE_SECONDS), Deadline(0)

    def heard(self, said: Mapping[str, Any]) -> None:
        """The agent heard an answer."""
        for card in self.cards:
            if card["id"] == said.get("id") and card["state"] == "answered":
                card["heard"] = card["option"] == said.get("option")

    def refusals(self) -> list[dict[str, Any]]:
        """The answers to what was asked beyond the bounds, once."""
        found, self._refused = self._refused, []
        return [{"id": id, "option": None} for id in found]

    def settle(self, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The reply to the open question, with a person's answer as a row if there is one; None while it waits on."""
        card = self.open
        self.look = Deadline(LOOK_SECONDS)
        if card is None:
            return None
        # Whoever took the web process could have written down anything.
        if row is not None and row["option"] in [option["id"] for option in card["options"]]:
            card |= {"state": "answered", "option": row["option"], "answered_by": row["actor"]}
            card["answered_at"] = row["at"].isoformat()
        elif self._end.is_over:
            card["state"] = "lapsed"
        else:
            return None
        return {"id": card["id"], "option": card["option"]}


def _options(said: Any) -> list[dict[str, str]]:
    """The options that can be shown and sent back, each once."""
    found: dict[str, dict[str, str]] = {}
    for each in said[:MOST_OPTIONS] if isinstance(said, list) else ():
        id = each.get("id") if isinstance(each, dict) else None
        # What is changed when it is shown could not be sent back.
        if isinstance(id, str) and id.strip() and printable(id, most=MOST_ID, mark=MARK) == id:
            name = _shown(each.get("name"), MOST_NAME)
            found.setdefault(id, {"id": id, "name": name or id, "kind": _shown(each.get("kind"), MOST_NAME)})
    return list(found.values())


def _shown(said: Any, most: int) -> str:
    return printable(str(said or ""), most=most, mark=MARK).strip()
