"""A thread for each workspace that is followed."""

import contextlib
import threading
from collections.abc import Callable, Iterable

Work = Callable[[str], None]


class Threads:
    """The threads that do `work` for a workspace each, until it returns."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._threads: dict[str, threading.Thread] = {}

    def begin(self, names: Iterable[str]) -> None:
        """Begin the work for those for whom nobody does it, or does it any more."""
        for name in names:
            thread = self._threads.get(name)
            if thread is None or not thread.is_alive():
                self._threads[name] = threading.Thread(target=self._work, args=(name,), daemon=True)
                # One for which the machine has no room now is begun by the next call.
                with contextlib.suppress(RuntimeError):
                    self._threads[name].start()
