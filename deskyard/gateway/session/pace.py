"""How often one address may try a false ticket before it is told no more about them. Right ones do not count."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable

PERIOD_SECONDS = 60
ADDRESSES = 20_000  # remembered at most; the one that was quiet longest is forgotten first


class Pace:
    """Counts attempts by address in the last minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._attempts: OrderedDict[str, deque[float]] = OrderedDict()

    def too_fast(self, address: str) -> bool:
        """Note an attempt, and say whether it is one too many."""
        now = self._clock()
        attempts = self._attempts.setdefault(address, deque(maxlen=self._most + 1))
        self._attempts.move_to_end(address)
        if len(self._attempts) > ADDRESSES:
            self._attempts.popitem(last=False)
        attempts.append(now)
        while attempts[0] <= now - PERIOD_SECONDS:
            attempts.popleft()
        return len(attempts) > self._most
