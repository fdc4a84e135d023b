"""The base of all drivers: the picture that the model saw last, and doing things in its pixels."""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deskyard_sdk.desktop import AsyncDesktop
from deskyard_sdk.drivers.calls import wrong
from deskyard_sdk.errors import DesktopError
from deskyard_sdk.forms import Picture

Action = dict[str, Any]
Confirm = Callable[[Mapping[str, Any]], bool]
SHOT = "shot"
# After an action the screen is looked at when it is at rest, or at last after this.
SETTLED = {"event": "screen.settled", "quiet_ms": 300, "within_ms": 3000}
GONE = 410
# The longest wait that is one action.
MOST_MS = 30_000


class AsyncDriver:
    """Acts for a model; `most` is the long side of its pictures, or a limit that the service knows.

    `confirm` is asked before what the vendor wants a person to agree to; without it that is refused.
    """

    def __init__(self, desktop: AsyncDesktop, most: int | str, confirm: Confirm | None = None) -> None:
        self._desktop = desktop
        self._look = {"format": "png", "max": most}
        self._confirm = confirm
        self._seen: Picture | None = None

    async def picture(self) -> Picture:
        """The screen as it is; from now on places of the model are meant on this picture."""
        self._seen = await self._desktop.screen(**self._look)
        return self._seen

    async def seen(self) -> Picture:
        """The picture that the model saw last."""
        return self._seen or await self.picture()

    @property
    def size(self) -> tuple[int, int] | None:
        """The size of that picture; None before the first."""
        return self._seen.size if self._seen else None

    async def do(self, actions: Sequence[Action], wait: Mapping[str, Any] = SETTLED) -> Picture:
        """Do something in the pixels of the picture that was seen last, and look when the screen is at rest."""
        seen = await self.seen()
        try:
            done = await self._desktop.act(*self._placed(actions, seen), picture=self._look, wait=wait)
        except DesktopError as error:
            # The service remembers so many pictures; a newer one of the same size has the same pixels.
            if error.status != GONE or error.value != seen.space or (await self.picture()).size != seen.size:
                raise
            again = self._placed(actions, await self.seen())
            done = await self._desktop.act(*again, picture=self._look, wait=wait)
        # Why there was none is said where it is asked for again.
        self._seen = done.picture or await self.picture()
        return self._seen

    def agreed(self, call: Mapping[str, Any]) -> None:
        """Ask whether a call may be done that the vendor wants a person to agree to; raises `DesktopError`."""
        if self._confirm is None:
            raise wrong("confirm", None, "is needed for this call, and nobody can be asked", "ask the user")
        if not self._confirm(call):
            raise wrong("confirm", None, "was not given by the user", "do something else")

    async def region(self, left: int, top: int, right: int, bottom: int) -> list[int]:
        """A part of the picture that was seen last as a part of the screen."""
        seen = await self.seen()
        x, y, width, height = seen.region
        across, down = width / seen.size[0], height / seen.size[1]
        if not (0 <= left < right <= seen.size[0] and 0 <= top < bottom <= seen.size[1]):
            remedy = f"give x0 < x1 up to {seen.size[0]} and y0 < y1 up to {seen.size[1]}"
            raise wrong("region", [left, top, right, bottom], "is no part of the picture", remedy)
        begin = int(left * across), int(top * down)
        end = -int(-right * across // 1), -int(-bottom * down // 1)
        return [x + begin[0], y + begin[1], end[0] - begin[0], end[1] - begin[1]]

    async def pointer(self) -> tuple[int, int]:
        """The pixel of the picture that was seen last in which the pointer is now; raises `DesktopError` if in none."""
        seen, at = await self.seen(), await self._desktop.pointer()
        if at is None:
            reason = "is not told: a person wants privacy, the screen is busy, or the service is of before"
            raise wrong("pointer", None, reason, "look at a picture, where it is painted in")
        x, y, width, height = seen.region
        # A pixel's middle, as for what is done in a pixel of the picture: it is found again where it was put.
        found = (
            math.floor((at[0] - x + 0.5) * seen.size[0] / width),
            math.floor((at[1] - y + 0.5) * seen.size[1] / height),
        )
        if not (0 <= found[0] < seen.size[0] and 0 <= found[1] < seen.size[1]):
            raise wrong("pointer", list(at), "is outside the picture that was seen last", "take a new picture")
        return found

    @staticmethod
    def _placed(actions: Sequence[Action], seen: Picture) -> list[Action]:
        return [action | {"space": seen.space} if action.get("space") == SHOT else action for action in actions]


def at(x: int, y: int) -> Action:
    """A place on the picture that was seen last."""
    return {"x": x, "y": y, "space": SHOT}


def pauses(ms: int) -> list[Action]:
    """A wait, as many actions as it needs."""
    times = [MOST_MS] * (ms // MOST_MS) + [ms % MOST_MS]
    return [{"type": "wait", "ms": time} for time in times]


def base64_of(picture: Picture) -> str:
    """A picture as vendors take it."""
    return base64.b64encode(picture.data or b"").decode()


def explained(error: DesktopError) -> str:
    """A refusal as a model reads it."""
    value = f" ({error.value})" if error.value else ""
    return f"{error.field}{value} {error.reason}; {error.remedy}"
