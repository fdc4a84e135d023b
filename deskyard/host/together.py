"""Does independent long work at once; an interruption ends all of it."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from deskyard.errors import DeskyardError
from deskyard.host import command
from deskyard.host.progress import Timings, labelled, say, step


def together(work: Mapping[str, Callable[[], Any]], timings: Timings) -> None:
    """Do every piece of `work`, as many at once as there are processors (or two); its progress carries its name.

    A failure lets the others finish, since their result is kept and need not be made again; the first failure is
    raised at the end.
    """
    failures: list[DeskyardError] = []
    with ThreadPoolExecutor(min(len(work), max(2, os.cpu_count() or 1))) as pool:
        try:
            # An interruption may come while they start.
            running = {pool.submit(_labelled, name, piece, timings): name for name, piece in work.items()}
            for done in as_completed(running):
                _note(done, running[done], failures)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            with command.stopping():
                pool.shutdown(wait=True)
            raise
    if failures:
        raise failures[0]


def _labelled(name: str, piece: Callable[[], Any], timings: Timings) -> None:
    with labelled(name), step(name, timings):
        piece()


def _note(done: Future[None], name: str, failures: list[DeskyardError]) -> None:
    try:
        done.result()
    except DeskyardError as error:
        failures.append(error)
        say(f"    {name} failed: {error.reason.splitlines()[0]}")
