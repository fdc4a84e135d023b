"""Sets a guest's clock: that of a guest which goes on from its kept memory stands where it was halted."""

import time
from collections.abc import Callable

from deskyard.errors import SiteError

NEAR_SECONDS, SET_SECONDS, TRIES = 2.0, 0.5, 3


def set_clock(name: str, read: Callable[[], float], shift: Callable[[float], None]) -> None:
    """Set the clock of the guest `name` to that of this machine, and look whether it took it.

    `read` asks the guest for the seconds since 1970, `shift` adds some to its clock: a moment would be old by the time
    that a busy guest takes it. One that is right already is left alone. Raises `SiteError` if it is still more than two
    seconds away after the third shift.
    """
    least, most = _behind(read)
    if least >= -SET_SECONDS and most <= SET_SECONDS:
        return
    for _ in range(TRIES):
        shift((least + most) / 2)
        least, most = _behind(read)
        if least <= NEAR_SECONDS and most >= -NEAR_SECONDS:
            return
    reason = f"its clock is {max(least, -most):.1f} s away, set {TRIES} times"
    raise SiteError("machine", name, reason, "set it in the guest, or restart the machine")


def shifted(seconds: float) -> str:
    """The argument by which `date --set` adds so many seconds."""
    return f"{seconds:+.3f} seconds"


def _behind(read: Callable[[], float]) -> tuple[float, float]:
    """How far the guest's clock is behind this machine's, at least and at most: when it was read is not known."""
    first = time.time()
    seen = read()
    return first - seen, time.time() - seen
