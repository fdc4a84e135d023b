"""Whether this desktop is recorded, as its declaration says: root's file, followed as it changes."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from deskyard.computer.recording.asked import Asked, NotUnderstood, read
from deskyard.computer.work import inotify

MOST_BYTES = 1 << 16
PRIVATE = "a person at this desktop wants privacy"
# Not while it is being written.
WHOLE = inotify.CLOSE_WRITE | inotify.MOVED_TO | inotify.MOVED_FROM | inotify.DELETE | inotify.ATTRIB


class Declared:
    """Follows the file that asks for a recording; while a person wants privacy, none is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked: Asked | None = None
        self._why = ""
        self._private = False
        self.changed = asyncio.Event()

    @property
    def recording(self) -> Asked | None:
        """The recording to make now; None where there is none to make."""
        return None if self._private else self._asked

    @property
    def reason(self) -> str:
        """Why nothing is recorded although it is asked for; empty where it is not, or is."""
        return PRIVATE if self._private and self._asked else self._why

    def hide(self, private: bool) -> None:
        """Have nothing recorded while a person wants privacy; heard at once."""
        self._private = private
        self.changed.set()

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Keep it as the file is; a desktop without the file's folder is one that was never asked to record."""
        self._read()
        queue = inotify.open_queue()
        loop = asyncio.get_running_loop()
        try:
            with contextlib.suppress(OSError):
                inotify.add(queue, self._path.parent)
                # It may have changed before it was watched.
                self._read()
            loop.add_reader(queue, self._hear, queue)
            yield
        finally:
            loop.remove_reader(queue)
            os.close(queue)

    def _hear(self, queue: int) -> None:
        for happening in list(inotify.read(queue)):
            if happening.mask & inotify.OVERFLOW or (happening.name == self._path.name and happening.mask & WHOLE):
                self._read()

    def _read(self) -> None:
        before = self._asked, self._why
        self._asked, self._why = None, ""
        try:
            with self._path.open("rb") as file:
                self._asked = read(file.read(MOST_BYTES).decode())
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError, NotUnderstood) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._why = f"{self._path}: {reason}"
        if (self._asked, self._why) != before:
            self.changed.set()
