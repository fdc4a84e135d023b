"""Moves of a cluster's machines: its API pushes nothing, so their states are compared with those of before."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from deskyard.host.deadline import Deadline
from deskyard.plan.power import Moved, stage_of
from deskyard.wire.stages import Stage

# A look is two calls for each machine: where that takes long, it is done less often.
LOOK_SECONDS, PAUSE_PER_LOOK = 3.0, 3.0


class ClusterMoves:
    """Moves since it was made; what begins and ends between two looks is not seen."""

    def __init__(
        self,
        look: Callable[[], Mapping[str, Mapping[str, Any]]],
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._woken = threading.Event()
        self._look, self._sleep, self._clock = look, sleep or self._rest, clock
        self._news: deque[Moved] = deque()
        self._took = 0.0
        self._seen = self._stages()

    def next(self, seconds: float) -> Moved | None:
        """The next move; None if there is none for so long."""
        if not self._news and seconds > 0:
            pause = min(max(LOOK_SECONDS, PAUSE_PER_LOOK * self._took), seconds)
            Deadline(seconds).wait_for(lambda: self._woken.is_set() or self._has_news(), pause, self._sleep)
            self._woken.clear()
        return self._news.popleft() if self._news else None

    def wake(self) -> None:
        """Let whoever waits go on at once."""
        self._woken.set()

    def _rest(self, seconds: float) -> None:
        self._woken.wait(seconds)

    def _has_news(self) -> bool:
        now, at = self._stages(), self._clock()
        for domain, stage in now.items():
            if self._seen.get(domain) is not stage:
                self._news.append(Moved(domain, stage, at))
        self._news.extend(Moved(domain, Stage.PROVISIONING, at) for domain in self._seen.keys() - now.keys())
        self._seen = now
        return bool(self._news)

    def _stages(self) -> dict[str, Stage]:
        began = time.monotonic()
        stages = {domain: stage_of(machine) for domain, machine in self._look().items()}
        self._took = time.monotonic() - began
        return stages
