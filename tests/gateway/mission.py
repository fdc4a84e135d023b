"""Mission Control's end of the line of the chats, played: it has what a test says, and notes what people said."""

import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deskyard.wire.talk import Talk

SECONDS = 60


class Mission:
    """An open line; `heard` are the documents of the gateway."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._stream = line.makefile("rb")
        self._heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for text in self._stream:
                self._heard.put(json.loads(text))
        except OSError:
            pass
        self._heard.put(None)

    def hears(self, what: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The next document that is so; those before it are passed over."""
        while (document := self._heard.get(timeout=SECONDS)) is not None:
            if what(document):
                return document
        raise AssertionError("the gateway ended the line")

    def ended(self) -> bool:
        """Whether the gateway ends the line, after what it said."""
        while self._heard.get(timeout=SECONDS) is not None:
            pass
        return True

    def opens(self, *desktops: str) -> None:
        """Wait until just these have an open page."""
        self.hears(lambda document: document.get("open") == sorted(desktops))

    def wish(self) -> dict[str, Any]:
        """The next wish of a page."""
        found: dict[str, Any] = self.hears(lambda document: "wish" in document)["wish"]
        return found

    def says(self, **document: Any) -> None:
        """Send a document."""
        self._line.sendall(json.dumps(document).encode() + b"\n")

    def shows(self, desktop: str, talk: Talk, before: Talk | None = None) -> None:
        """Send what is new of a conversation."""
        self.says(desktop=desktop, talk=talk.news(before))


@contextmanager
def mission_at(path: Path) -> Iterator[Mission]:
    """Mission Control, connected to a gateway."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(SECONDS)
        line.connect(str(path))
        yield Mission(line)
        line.shutdown(socket.SHUT_RDWR)


def message(id: str, text: str, role: str = "agent", **changes: Any) -> dict[str, Any]:
    """A message as Mission Control shows it."""
    author = "agent:demo.d1" if role == "agent" else "person:Ada"
    facts = {"id": id, "role": role, "author": author, "text": text, "cut": False, "state": "done", "problem": None}
    return {**facts, "at": "2026-11-28T10:00:00+00:00", "tools": [], "more_tools": 0, "questions": [], **changes}


def talk_of(*messages: dict[str, Any], conversation: str = "cv_1", title: str = "A task") -> Talk:
    """A conversation of these messages."""
    return Talk(conversation, title, {each["id"]: each for each in messages})
