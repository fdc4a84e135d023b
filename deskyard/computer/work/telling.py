"""Tells of processes and files among the desktop's events, bounded: one event stands for all of a moment."""

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from deskyard.computer.work.process import Process
from deskyard.computer.work.watches import LOST, Change, Watch
from deskyard.wire.computer import FILE_CHANGED, PROCESS_ENDED, PROCESS_OUTPUT

# What happens in a moment is told at its end.
MOMENT_SECONDS = 0.2
MOST_BYTES = 2000  # of a stream's newest output in a moment
MOST_CHANGES = 20  # of a watched directory in a moment


class Events(Protocol):
    """The record of the desktop's events."""

    last: int

    def tell(self, kind: str, data: dict[str, Any]) -> object:
        """Add an event."""


class Telling:
    """Tells of the processes and watches that it is given; of nothing where there is no record of events."""

    def __init__(self) -> None:
        self.events: Events | None = None

    @property
    def last(self) -> int:
        """The number of the last event, from which a wait may count; 0 where there are none."""
        return self.events.last if self.events else 0

    def follow(self, process: Process) -> None:
        """Tell of a process's end, and of its output if it was started so."""
        if self.events:
            process.output.on_news = Following(self.events, process).hear

    async def watch(self, name: str, watch: Watch) -> None:
        """Tell what changes in a directory until its watch is over."""
        while changes := await watch.next():
            for change in _bounded(changes):
                data = {"watch": name, "root": str(watch.root), "kind": change.kind, "path": change.path}
                if self.events:
                    self.events.tell(FILE_CHANGED, data)
            await asyncio.sleep(MOMENT_SECONDS)


def _bounded(changes: list[Change]) -> Iterator[Change]:
    yield from changes[:MOST_CHANGES]
    if len(changes) > MOST_CHANGES:
        yield Change(LOST, "")


class Following:
    """The part of a process that was said in events already."""

    def __init__(self, events: Events, process: Process) -> None:
        self._events = events
        self._process = process
        self._offset = 0
        self._timer: asyncio.TimerHandle | None = None

    def hear(self) -> None:
        """There is more output, or the end."""
        process = self._process
        if process.output.ended:
            if self._timer:
                self._timer.cancel()
            self._tell_output()
            assert process.end
            self._tell(PROCESS_ENDED, {"exit_code": process.end.code, "signal": process.end.signal})
        elif process.order.tells_output and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOMENT_SECONDS, self._moment)

    def _moment(self) -> None:
        self._timer = None
        self._tell_output()

    def _tell_output(self) -> None:
        output = self._process.output
        if not self._process.order.tells_output or self._offset == output.end:
            return
        position = max(self._offset, output.start, output.end - MOST_BYTES)
        lost, said = position - self._offset, dict[str, bytes]()
        self._offset = output.end
        while piece := output.after(position):
            said[piece.stream] = said.get(piece.stream, b"") + piece.data
            position = piece.end
        for stream, data in said.items():
            self._tell(PROCESS_OUTPUT, {"stream": stream, "text": data.decode(errors="replace"), "lost_bytes": lost})
            lost = 0

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        process = self._process
        known = {"process": process.number, "pid": process.pid, "tag": process.order.tag}
        self._events.tell(kind, {**known, **data, "offset": process.output.end})
