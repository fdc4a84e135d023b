"""Tells the computer-use service of a desktop that a person there wants privacy, again and again while it lasts.

The door refuses programs by itself. This is for what asks inside the desktop, and for who waits for the end: the
service believes it for some seconds only, so that no privacy outlives its gateway.
"""

import asyncio
import contextlib
import json

from deskyard.wire.computer import PRIVACY_PATH

AGAIN_SECONDS = 5.0
BELIEVED_SECONDS = 20
ANSWER_SECONDS = 2.0
MOST_ANSWER = 4096

Where = tuple[str, int]


class Heralds:
    """A herald for each desktop, one word at a time, so that none overtakes another."""

    def __init__(self) -> None:
        self._private: dict[str, Where] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, private: dict[str, Where]) -> None:
        """Have these services know it, and those of before know that it is over."""
        before, self._private = self._private, private
        for desktop in {*before, *private}:
            if desktop in self._news:
                self._news[desktop].set()
            elif desktop in private:
                self._news[desktop] = asyncio.Event()
                task = asyncio.create_task(self._tell(desktop))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell(self, desktop: str) -> None:
        news = self._news[desktop]
        where = self._private[desktop]
        try:
            while True:
                news.clear()
                on = desktop in self._private
                where = self._private.get(desktop, where)
                await say(where, on=on)
                if not on and not news.is_set():
                    return  # one that did not hear it stops to believe by itself
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), AGAIN_SECONDS)
        finally:
            del self._news[desktop]


async def say(where: Where, *, on: bool) -> bool:
    """One word to a service; whether it was taken. A desktop that is frozen, older or hostile holds up nobody."""
    body = json.dumps({"on": on, "seconds": BELIEVED_SECONDS})
    head = f"PUT {PRIVACY_PATH} HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(*where, limit=MOST_ANSWER)
            try:
                writer.write(f"{head}{body}".encode())
                return (await reader.readuntil(b"\r\n")).split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False
