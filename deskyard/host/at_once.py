"""Does work at once: the same with several desktops of a workspace, or long pieces that need nothing of each other."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from deskyard.errors import DeskyardError
from deskyard.host import command
from deskyard.host.progress import Timings, labelled, say, step

T = TypeVar("T")
# A gateway's SSH server drops some of more than ten strangers at a time.
AT_ONCE = 4


def at_once(work: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Do it for every desktop; the first failure is raised when all have ended, an interruption ends all."""
    with _pool(AT_ONCE) as pool:
        running = {desktop: pool.submit(piece) for desktop, piece in work.items()}
        wait(running.values())
    failures = [failure for task in running.values() if (failure := task.exception())]
    if failures:
        raise failures[0]
    return {desktop: task.result() for desktop, task in running.items()}


def together(work: Mapping[str, Callable[[], Any]], timings: Timings) -> None:
    """Do every piece of `work`, as many at once as there are processors (or two); its progress carries its name.

    A failure lets the others finish, since their result is kept and need not be made again; the first failure is
    raised at the end.
    """
    failures: list[DeskyardError] = []
    with _pool(min(len(work), max(2, os.cpu_count() or 1))) as pool:
        running = {pool.submit(_labelled, name, piece, timings): name for name, piece in work.items()}
        for done in as_completed(running):
            _note(done, running[done], failures)
    if failures:
        raise failures[0]


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for the block; what interrupts it, also while they start, ends the programs that they run."""
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            with command.stopping():
                pool.shutdown(wait=True)
            raise


def _labelled(name: str, piece: Callable[[], Any], timings: Timings) -> None:
    with labelled(name), step(name, timings):
        piece()


def _note(done: Future[None], name: str, failures: list[DeskyardError]) -> None:
    try:
        done.result()
    except DeskyardError as error:
        failures.append(error)
        say(f"    {name} failed: {error.reason.splitlines()[0]}")
