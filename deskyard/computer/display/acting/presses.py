"""Whether a person goes on with keys or buttons that are down: who drags presses nothing, and has not left."""

import time

from deskyard.computer.display.x_server import XConnection

BUTTONS = 0x1F00  # of the mask of a pointer's state


class Presses:
    """Keys and buttons that are down while a person drives: theirs. Used by the thread that hears the X server.

    The server is asked, and their devices' events are not counted: TigerVNC presses modifiers of the agent's again that
    it let go for a person's letter. And a release may not come for hours: TigerVNC 1.12 lets go the button of a viewer
    that was closed only when another moves the pointer. So who holds something and does nothing else has left after
    a while.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._state: tuple[object, ...] = ()
        self._since = 0.0

    def acts(self) -> None:
        """A person pressed something, or let it go."""
        self._state = ()

    def go_on(self, c: XConnection) -> bool:
        """Whether the person goes on with something: it is down, and the pointer was moved in the last while."""
        asked = c.core.QueryKeymap()
        pointer, keys = c.core.QueryPointer(c.root).reply(), bytes(asked.reply().keys.raw)
        if not (any(keys) or pointer.mask & BUTTONS):
            return False
        state, now = (keys, pointer.mask, pointer.root_x, pointer.root_y), time.monotonic()
        if state != self._state:
            self._state, self._since = state, now
        return now - self._since < self._seconds
