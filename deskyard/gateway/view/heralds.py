"""Tells the computer-use service of a desktop that a person there wants privacy, again and again while it lasts.

The door refuses programs by itself. This is for what asks inside the desktop, and for who waits for the end: the
service believes it for some seconds only, so that no privacy outlives its gateway.
"""

from deskyard.gateway.view.criers import Criers
from deskyard.gateway.view.word import Where, put
from deskyard.wire.computer import PRIVACY_PATH

AGAIN_SECONDS = 5.0
BELIEVED_SECONDS = 20


class Heralds:
    """Tells desktops that they are private, again and again, and once that they no longer are."""

    def __init__(self) -> None:
        self._places: dict[str, Where] = {}
        self._criers: Criers[Where] = Criers(self._tell)
        self.send = self._criers.send
        self.tasks = self._criers.tasks

    async def _tell(self, desktop: str, where: Where | None) -> float | None:
        if where is not None:
            self._places[desktop] = where
            await say(where, on=True)
            return AGAIN_SECONDS
        # Once: a service that did not hear it stops to believe by itself.
        if desktop in self._places:
            await say(self._places.pop(desktop), on=False)
        return None


async def say(where: Where, *, on: bool) -> bool:
    """One word to a service; whether it was taken."""
    return await put(where, PRIVACY_PATH, {"on": on, "seconds": BELIEVED_SECONDS})
