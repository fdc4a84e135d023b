"""Tells gateways where desktops are, for the pages that wait there; a gateway that does not answer holds up nobody."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Self

from deskyard.access import access
from deskyard.errors import DeskyardError
from deskyard.life.events import Event
from deskyard.wire.stages import OF_HOST, Stage

# Tells the gateway of a workspace where its host has desktops, each since a Unix time.
Tell = Callable[[str, Mapping[str, tuple[Stage, float]]], object]


class StageNews:
    """The newest event of each desktop of a workspace, told by its own thread; nothing is tried twice by itself."""

    def __init__(self, workspace: str, tell: Tell = access.tell_stages) -> None:
        self._workspace, self._tell = workspace, tell
        self._latest: dict[str, tuple[Stage, float]] = {}
        self._due: set[str] = set()
        self._news = threading.Condition()
        self._ended = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="stage news", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._ended = True
            self._news.notify()

    def note(self, event: Event) -> None:
        """Have an event told; only the newest of each desktop counts."""
        with self._news:
            if event.state in OF_HOST:
                if self._latest.get(event.desktop, (None, 0.0))[0] == event.state:
                    return  # as each further route answers it boots still
                self._latest[event.desktop] = event.state, event.at
                self._due.add(event.desktop)
                self._news.notify()
            else:
                # Whether routes answer, a gateway finds by itself.
                self._latest.pop(event.desktop, None)
                self._due.discard(event.desktop)

    def again(self) -> None:
        """Have all told once more: a gateway that started anew knows nothing of before."""
        with self._news:
            self._due.update(self._latest)
            self._news.notify()

    def _run(self) -> None:
        while due := self._next():
            # A courtesy to who waits: nothing hangs on it, and a gateway from before does not know it.
            with contextlib.suppress(DeskyardError, OSError):
                self._tell(self._workspace, due)

    def _next(self) -> dict[str, tuple[Stage, float]]:
        """The desktops that are to be told of, once there are some; none when it is over."""
        with self._news:
            self._news.wait_for(lambda: self._due or self._ended)
            due = {} if self._ended else {name: self._latest[name] for name in sorted(self._due)}
            self._due.clear()
            return due
