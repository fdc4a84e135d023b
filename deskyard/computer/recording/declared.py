"""Whether this desktop is recorded, as its declaration says: root's file, followed as it changes."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from deskyard.computer.recording.asked import Asked, NotUnderstood, read
from deskyard.computer.work import inotify

MOST_BYTES = 1 << 16
# Not while it is being written.
WHOLE = inotify.CLOSE_WRITE | inotify.MOVED_TO | inotify.MOVED_FROM | inotify.DELETE | inotify.ATTRIB


class Declared:
    """What the file says now; `reason` is why it cannot be followed, empty where it can or there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.recording: Asked | None = None
        self.reason = ""
        self.changed = asyncio.Event()

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
        before = self.recording, self.reason
        self.recording, self.reason = None, ""
        try:
            with self._path.open("rb") as file:
                self.recording = read(file.read(MOST_BYTES).decode())
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError, NotUnderstood) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.reason = f"{self._path}: {reason}"
        if (self.recording, self.reason) != before:
            self.changed.set()
