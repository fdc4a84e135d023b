"""The processes that the service has started: bounded in number, kept for a while, ended with it."""

import asyncio
import collections
import contextlib
import signal
from collections.abc import Callable
from http import HTTPStatus

from deskyard.computer.problem import Problem
from deskyard.computer.work.process import Order, Process

MOST_RUNNING = 128
# What has ended can still be asked for its output, so many of them.
MOST_ENDED = 32
LAST_SECONDS = 2.0


class Processes:
    """All processes by their number."""

    def __init__(self, follow: Callable[[Process], None] = lambda process: None) -> None:
        self._follow = follow
        self._all: collections.OrderedDict[str, Process] = collections.OrderedDict()
        self._started = 0

    def start(self, order: Order) -> Process:
        """Start a process."""
        if len(self.running()) >= MOST_RUNNING:
            reason = f"would be more than {MOST_RUNNING} at once"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "process", None, reason, "end some that are not needed")
        self._started += 1
        process = Process(str(self._started), order)
        self._all[process.number] = process
        # Nothing of it was read yet: that happens in the event loop.
        self._follow(process)
        ended = [each for each in self._all.values() if each.end is not None]
        for each in ended[: max(0, len(ended) - MOST_ENDED)]:
            self._all.pop(each.number)
        return process

    def all(self) -> list[Process]:
        """Those that run, and those that ended lately, oldest first."""
        return list(self._all.values())

    def running(self) -> list[Process]:
        """Those that run."""
        return [process for process in self._all.values() if process.end is None]

    def find(self, number: str) -> Process:
        """The process of a number; raises `Problem` where there is none."""
        if number not in self._all:
            raise Problem(HTTPStatus.NOT_FOUND, "process", number, "is not known", "list the processes that are")
        return self._all[number]

    def forget(self, process: Process) -> None:
        """Keep a process that has ended no longer."""
        self._all.pop(process.number, None)

    async def end(self, process: Process) -> None:
        """Kill a process with its group, and wait until it is gone; raises `Problem` where it takes no signals."""
        if process.end is None:
            process.signal(signal.SIGKILL)
        await process.over.wait()

    async def end_all(self) -> None:
        """End every process with its group, as far as they can be: kindly first, then not."""
        running = self.running()
        for process in running:
            with contextlib.suppress(Problem):
                process.signal(signal.SIGHUP)
                process.signal(signal.SIGTERM)
                process.signal(signal.SIGCONT)
        if running:
            waits = [asyncio.create_task(process.over.wait()) for process in running]
            _, pending = await asyncio.wait(waits, timeout=LAST_SECONDS)
            await asyncio.gather(*(self.end(process) for process in self.running()), return_exceptions=True)
            for wait in pending:
                wait.cancel()
