"""A connection through the filter of VNC connections, and the part of it that may pass."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deskyard.gateway.view.budget import Budget
from deskyard.gateway.view.rfb import MessageReader
from deskyard.gateway.view.websocket import BINARY, CONTROL, FrameReader, frame


class Filter:
    """Filters a client's bytes on their way to a desktop."""

    def __init__(self, may_act: Callable[[], bool]) -> None:
        self.acted = 0.0  # when this client last acted
        self.dropped = 0  # messages that were kept from the desktop
        self._may_act = may_act
        self._budget = Budget()
        self._frames = FrameReader(self._budget.step)
        self._messages = MessageReader(self._budget.step)

    def feed(self, data: bytes) -> bytes:
        """Answer the part that may pass, as whole frames; raises `ProtocolError`, also when it is too much."""
        self._budget.read(len(data))
        out: list[bytes] = []
        for incoming in self._frames.feed(data):
            if incoming.opcode in CONTROL:
                out.append(frame(incoming.opcode, incoming.payload))
                continue
            passing = b"".join(
                message.data for message in self._messages.feed(incoming.payload) if self._passes(message.acts)
            )
            if passing:
                out.append(frame(BINARY, passing))
        return b"".join(out)

    def _passes(self, acts: bool) -> bool:
        if not acts:
            return True
        if self._may_act():
            self.acted = time.time()
            return True
        self.dropped += 1
        return False


@dataclass(eq=False)
class Stream:
    """A connection through the filter."""

    number: int
    session: str
    desktop: str
    address: str
    shows: str  # the id of a stream of the computer's service; nothing for the screen
    filter: Filter
    task: asyncio.Task[None] | None
    since: float = field(default_factory=time.time)
