"""Does the same with several desktops of a workspace at once; one that fails keeps no other from it."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from deskyard.host import command

T = TypeVar("T")
# A gateway's SSH server drops some of more than ten strangers at a time.
AT_ONCE = 4


def at_once(work: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Do it for every desktop; the first failure is raised when all have ended, an interruption ends all."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {desktop: pool.submit(piece) for desktop, piece in work.items()}
        try:
            wait(running.values())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            with command.stopping():
                pool.shutdown(wait=True)
            raise
    failures = [failure for task in running.values() if (failure := task.exception())]
    if failures:
        raise failures[0]
    return {desktop: task.result() for desktop, task in running.items()}
