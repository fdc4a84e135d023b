"""A segment: some minutes of a screen that begin with all of it, and what was done meanwhile, in files of one name.

`ID.fbs` holds the frames, `ID.jsonl` what was done, `ID.json` what is known of both as soon as the segment is closed.
"""

import contextlib
import errno
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deskyard.computer.answers.screen import Recording
from deskyard.computer.recording import fbs

FRAMES, ACTIONS, ABOUT = ".fbs", ".jsonl", ".json"
DRAFT = ".new"
MODE = 0o600


@dataclass(frozen=True)
class Entry:
    """The facts of a segment; times are seconds since 1970."""

    id: str
    begin: float
    end: float
    bytes: int
    size: tuple[int, int]
    frames: int
    actions: int

    def described(self, is_open: bool) -> Recording:
        """The segment as it stands in answers."""
        return {
            "id": self.id, "begin": self.begin, "end": self.end, "bytes": self.bytes, "size": list(self.size),
            "frames": self.frames, "actions": self.actions, "seconds": round(self.end - self.begin, 3), "open": is_open,
        }  # fmt: skip


class Segment:
    """The segment that is being written; by one thread at a time."""

    def __init__(self, folder: Path, id: str, size: tuple[int, int], begin: float) -> None:
        self.id, self.size = id, size
        self._folder = folder
        self._begin = begin
        self._clock = time.monotonic() - (time.time() - begin)
        self._end = begin
        self._written = {FRAMES: 0, ACTIONS: 0}
        self._frames = self._actions = 0
        self._files: dict[str, int] = {}
        try:
            for kind in (FRAMES, ACTIONS):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._files[kind] = os.open(folder / f"{id}{kind}", flags, MODE)
            self._write(FRAMES, fbs.beginning(*size))
        except OSError:
            self._let_go()
            remove(folder, id)
            raise

    @property
    def length(self) -> int:
        """How much it takes so far."""
        return sum(self._written.values())

    @property
    def seconds(self) -> float:
        """How long ago it began."""
        return time.monotonic() - self._clock

    def entry(self) -> Entry:
        """The facts of this segment so far."""
        return Entry(self.id, self._begin, self._end, self.length, self.size, self._frames, self._actions)

    def frame(self, message: bytes) -> None:
        """Add an update."""
        seconds = self.seconds
        self._write(FRAMES, fbs.block(message, int(seconds * 1000)))
        self._frames += 1
        self._end = self._begin + seconds

    def action(self, at: float, entry: dict[str, Any]) -> None:
        """Add what was done at that time of the monotonic clock."""
        seconds = max(0.0, at - self._clock)
        line = {"offset_ms": int(seconds * 1000), "time": round(self._begin + seconds, 3), **entry}
        self._write(ACTIONS, json.dumps(line).encode() + b"\n")
        self._actions += 1
        self._end = max(self._end, self._begin + seconds)

    def _write(self, kind: str, data: bytes) -> None:
        """Write all of it or nothing: what is half there is cut off again."""
        file, before = self._files[kind], self._written[kind]
        try:
            if (done := os.write(file, data)) < len(data):
                # A disk that fills up takes a part, and says why when it is asked for the rest.
                os.write(file, data[done:])
            if os.fstat(file).st_size < before + len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, before)
            raise
        self._written[kind] = before + len(data)

    def close(self) -> Entry:
        """End it, and write down what is known of it."""
        self._let_go()
        entry = self.entry()
        # Without room for it, the next start finds out the same from the files.
        with contextlib.suppress(OSError):
            describe(self._folder, entry)
        return entry

    def _let_go(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files = {}


def describe(folder: Path, entry: Entry) -> None:
    """Write down what is known of a closed segment, in one step."""
    draft = folder / f"{entry.id}{ABOUT}{DRAFT}"
    try:
        draft.write_text(json.dumps(asdict(entry)))
        draft.rename(folder / f"{entry.id}{ABOUT}")
    finally:
        draft.unlink(missing_ok=True)


def remove(folder: Path, id: str) -> None:
    """Remove a segment; the frames last, by which it is found."""
    for kind in (f"{ABOUT}{DRAFT}", ABOUT, ACTIONS, FRAMES):
        (folder / f"{id}{kind}").unlink(missing_ok=True)


def found(folder: Path, id: str) -> Entry | None:
    """A segment that an earlier run of the service left, made whole if that was killed; None if nothing is in it."""
    try:
        said = json.loads((folder / f"{id}{ABOUT}").read_text())
        return Entry(**{**said, "size": (int(said["size"][0]), int(said["size"][1])), "id": id})
    except (OSError, ValueError, TypeError, LookupError):
        return _mended(folder, id)


def _mended(folder: Path, id: str) -> Entry | None:
    try:
        frames = os.open(folder / f"{id}{FRAMES}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        state = fbs.whole(frames)
        if state is None or state.blocks < 2:
            return None
        os.ftruncate(frames, state.bytes)
    finally:
        os.close(frames)
    lines = _whole_lines(folder / f"{id}{ACTIONS}")
    begin = int(id) / 1000
    size = state.bytes + sum(len(line) + 1 for line in lines)
    entry = Entry(id, begin, begin + state.last_ms / 1000, size, state.size, state.blocks - 1, len(lines))
    describe(folder, entry)
    return entry


def _whole_lines(path: Path) -> list[bytes]:
    try:
        content = path.read_bytes()
    except OSError:
        return []
    *lines, rest = content.split(b"\n")
    if rest:
        os.truncate(path, len(content) - len(rest))
    return lines
