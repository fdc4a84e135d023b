"""The output of a process, kept for a while: bounded, and read by any number of readers from any position."""

import asyncio
import collections
from collections.abc import Callable
from dataclasses import dataclass

MOST_BYTES = 1 << 20
# Small pieces are joined up to this size.
JOINED_BYTES = 4096
# A reader that takes nothing for so long no longer holds the process up.
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Piece:
    """Bytes that were said on a stream (`stdout`, `stderr`, `terminal`), and where they stand in all that was said.

    A piece of the stream `lost` stands for bytes that are gone: `size` of them.
    """

    stream: str
    offset: int
    data: bytes
    lost: int = 0

    @property
    def end(self) -> int:
        """The position after the piece."""
        return self.offset + len(self.data) + self.lost


class Output:
    """All that a process says, in the order in which it was read; the oldest is dropped beyond a bound."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.start = self.end = 0
        self.ended = False
        # Called when readers have caught up so far that more may be said.
        self.on_room: Callable[[], None] = lambda: None
        # Called when more was said, and at the end.
        self.on_news: Callable[[], None] = lambda: None
        self._pieces: collections.deque[Piece] = collections.deque()
        self._readers: set[Reader] = set()

    def add(self, stream: str, data: bytes) -> None:
        """Take what was said."""
        last = self._pieces[-1] if self._pieces else None
        if last and last.stream == stream and len(last.data) + len(data) <= JOINED_BYTES:
            self._pieces[-1] = Piece(stream, last.offset, last.data + data)
        else:
            self._pieces.append(Piece(stream, self.end, data))
        self.end += len(data)
        while self.end - self.start > self.most and len(self._pieces) > 1:
            self._pieces.popleft()
            self.start = self._pieces[0].offset
        self._wake()

    def finish(self) -> None:
        """Nothing more will be said."""
        self.ended = True
        self._wake()

    def read_from(self, offset: int) -> "Reader":
        """A reader of all from a position on; it is closed when done with."""
        reader = Reader(self, min(offset, self.end))
        self._readers.add(reader)
        return reader

    def held_by(self, now: float) -> bool:
        """Whether a reader is so far behind, and not for too long, that the process must wait for it."""
        return any(
            self.end - reader.offset > self.most // 2 and now - reader.moved < PATIENCE_SECONDS
            for reader in self._readers
        )

    def after(self, offset: int) -> Piece | None:
        """The piece at a position, or what says that it is lost; None where nothing is yet."""
        if offset < self.start:
            return Piece("lost", offset, b"", self.start - offset)
        for piece in self._pieces:
            if offset < piece.end:
                skipped = offset - piece.offset
                return Piece(piece.stream, offset, piece.data[skipped:]) if skipped else piece
        return None

    def forget(self, reader: "Reader") -> None:
        """Wait for this reader no longer."""
        self._readers.discard(reader)
        self.on_room()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.woken.set()
        self.on_news()


class Reader:
    """A position in the output of a process."""

    def __init__(self, output: Output, offset: int) -> None:
        self._output = output
        self.offset = offset
        self.woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.moved = self._loop.time()

    async def next(self) -> Piece | None:
        """The next piece; None at the end. Nothing is lost when the wait is cancelled."""
        while True:
            if piece := self._output.after(self.offset):
                self.offset, self.moved = piece.end, self._loop.time()
                self._output.on_room()
                return piece
            if self._output.ended:
                return None
            self.woken.clear()
            await self.woken.wait()

    def close(self) -> None:
        """Read no more."""
        self._output.forget(self)
