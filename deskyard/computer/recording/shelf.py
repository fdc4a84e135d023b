"""The folder of a desktop's segments: found again at a start, kept within its bounds, the oldest going first."""

import os
import threading
import time
from pathlib import Path

from deskyard.computer.recording import segment
from deskyard.computer.recording.asked import Asked
from deskyard.computer.recording.segment import FRAMES, Entry, Segment

FOLDER_MODE = 0o700


class Shelf:
    """The closed segments, and the one that is being written; written by one thread, read by any."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open: Segment | None = None
        self._closed: dict[str, Entry] = {}  # the oldest first
        self._closed_bytes = 0
        self._lock = threading.Lock()

    def find(self) -> None:
        """Take in what earlier runs left; nothing is made where nothing is."""
        ids = sorted({path.name.split(".")[0] for path in self.folder.glob("*.*")}, key=lambda id: (len(id), id))
        with self._lock:
            for id in ids:
                if id.isascii() and id.isdigit():
                    entry = segment.found(self.folder, id) if (self.folder / f"{id}{FRAMES}").is_file() else None
                    if entry is None:
                        segment.remove(self.folder, id)
                    else:
                        self._add(entry)

    def entries(self) -> list[tuple[Entry, bool]]:
        """All segments, the oldest first, and whether each is still being written."""
        with self._lock:
            closed = [(entry, False) for entry in self._closed.values()]
            return [*closed, *([(self.open.entry(), True)] if self.open else [])]

    @property
    def total(self) -> int:
        """How many bytes all of them take."""
        begun = self.open
        return self._closed_bytes + (begun.length if begun else 0)

    def _add(self, entry: Entry) -> None:
        self._closed[entry.id] = entry
        self._closed_bytes += entry.bytes

    def begin(self, size: tuple[int, int], at: float) -> Segment:
        """Close the segment in hand, and begin the next one, at that time."""
        self.close()
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        # A clock that was put back must not bring two of one name.
        number = max(int(at * 1000), int(next(reversed(self._closed), "0")) + 1)
        begun = Segment(self.folder, str(number), size, at)
        with self._lock:
            self.open = begun
        return begun

    def close(self) -> None:
        """Close the segment in hand, if there is one."""
        if self.open:
            entry = self.open.close()
            with self._lock:
                self.open = None
                if entry.frames:
                    self._add(entry)
            if not entry.frames:
                segment.remove(self.folder, entry.id)

    def keep(self, bounds: Asked, room: int = 0) -> None:
        """Remove whole segments, the oldest first: what is too old, and what is too much with so many bytes more."""
        while (oldest := self._oldest()) and (
            oldest.end + bounds.keep_seconds < time.time() or self.total + room > bounds.size_bytes
        ):
            self.remove(oldest.id)

    def expires(self, bounds: Asked) -> float:
        """In how many seconds the last that is in the oldest segment is too old; 0 where it is already."""
        begun = self.open
        oldest = self._oldest() or (begun.entry() if begun else None)
        return max(0.0, oldest.end + bounds.keep_seconds - time.time()) if oldest else float(bounds.keep_seconds)

    def _oldest(self) -> Entry | None:
        with self._lock:
            return next(iter(self._closed.values()), None)

    def remove(self, id: str) -> bool:
        """Remove a closed segment; whether it was there."""
        with self._lock:
            entry = self._closed.pop(id, None)
            self._closed_bytes -= entry.bytes if entry else 0
        if entry:
            segment.remove(self.folder, id)
        return entry is not None

    def free(self) -> int:
        """How many bytes are free where the folder is, or will be."""
        place = self.folder
        while not place.exists():
            place = place.parent
        facts = os.statvfs(place)
        return facts.f_bavail * facts.f_frsize
