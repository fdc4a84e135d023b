"""Sets a guest's clock: that of a guest which goes on from its kept memory stands where it was halted."""

import time
from collections.abc import Callable

from deskyard.errors import SiteError

NEAR_SECONDS, TRIES = 2.0, 3


def set_clock(name: str, read: Callable[[], float], write: Callable[[float], None]) -> None:
    """Set the clock of the guest `name` to that of this machine, and look whether it took it.

    `read` and `write` ask the guest in seconds since 1970. Raises `SiteError` if it is still more than two seconds
    away at the third try: an agent may be slow, and what it is given is then old.
    """
    for _ in range(TRIES):
        write(time.time())
        away = _away(read)
        if away <= NEAR_SECONDS:
            return
    reason = f"its clock is {away:.1f} s away, set {TRIES} times"
    raise SiteError("machine", name, reason, "set it in the guest, or restart the machine")


def _away(read: Callable[[], float]) -> float:
    """How far the guest's clock is from any moment at which it may have been read."""
    first = time.time()
    seen = read()
    return max(first - seen, seen - time.time(), 0.0)
