"""Keeps on disk what happens at the seats of a workspace: a line that is there stays, whoever is killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from deskyard.host.lock import alone
from deskyard.host.places import Stamp, places, stamp
from deskyard.host.secret_file import make_folder, opened, write_secret
from deskyard.plan.pool import seat
from deskyard.plan.pool.seat import Entry, Seated


class Ledger:
    """The lines of one workspace. Who decides by what it reads holds `alone` meanwhile."""

    host = ""

    def __init__(self, site: str, workspace: str) -> None:
        self._lock = f"seats-{site}-{workspace}"
        self._file = places().workspace(site, workspace) / "seats.jsonl"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others from deciding; for a moment only."""
        with alone(self._lock):
            yield

    def machines(self) -> dict[str, Seated]:
        """The machines at seats, by the names of these."""
        return seat.machines(self._entries())

    def note(self, entry: Entry) -> bool:
        """Add a line; it is on the disk when this ends. Nobody is faster: who decides holds the lock."""
        make_folder(self._file.parent)
        new = not self._file.exists()
        handle = opened(self._file, os.O_RDWR | os.O_APPEND)
        try:
            # A killed writer may have left half a line.
            size = os.fstat(handle).st_size
            begin = "" if not size or os.pread(handle, 1, size - 1) == b"\n" else "\n"
            os.write(handle, f"{begin}{seat.written(entry)}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        if new:
            folder = os.open(self._file.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return True

    def stamp(self) -> Stamp:
        """Stands for the lines that there are: another one, if any was added or left out."""
        return stamp(self._file)

    def tidy(self) -> None:
        """Leave out what is of machines that are gone."""
        with self.alone():
            entries = self._entries()
            kept = seat.kept(entries)
            if len(kept) < len(entries):
                write_secret(self._file, "".join(f"{seat.written(entry)}\n" for entry in kept).encode())

    def _entries(self) -> list[Entry]:
        try:
            lines = self._file.read_text().splitlines()
        except FileNotFoundError:
            return []
        return [entry for line in lines if (entry := seat.read(line)) is not None]
