"""A program that is started for the desktop and outlives the service: what it says at its start, and its end."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path


class Child:
    """A process with a session of its own, whose errors are read for as long as somebody is there to read them.

    It is no subprocess of asyncio's, which may kill what still runs when its loop is over.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        reading, writing = os.pipe()
        try:
            null = subprocess.DEVNULL
            self._process = subprocess.Popen(
                command, stdin=null, stdout=null, stderr=writing, cwd=folder, start_new_session=True
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._pipe = os.fdopen(reading, "rb", 0)
        self.pid = self._process.pid
        self.says = asyncio.StreamReader()
        self._transport: asyncio.ReadTransport | None = None

    async def listen(self) -> None:
        """Begin to take what it says."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self.says)
        self._transport, _ = await loop.connect_read_pipe(lambda: protocol, self._pipe)

    async def follow(self) -> None:
        """Read on, to nowhere, until it ends: a full pipe would stop it. When this is cancelled the program goes on."""
        try:
            while await self.says.read(1 << 16):
                pass
            await self.ended()
        finally:
            if self._process.poll() is None:
                # Nobody waits for it any more, and that is meant.
                self._process.returncode = 0
            if self._transport:
                self._transport.close()

    async def ended(self) -> int:
        """Its exit status, when it has one."""
        async with exiting(self.pid) as exited:
            await exited
        return self._process.wait()


@contextlib.asynccontextmanager
async def exiting(pid: int) -> AsyncIterator["asyncio.Future[None]"]:
    """A future that is done when the process of that number ends; at once if there is no such process."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        exited.set_result(None)
        yield exited
        return

    def note() -> None:
        if not exited.done():
            exited.set_result(None)

    loop.add_reader(descriptor, note)
    try:
        yield exited
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
