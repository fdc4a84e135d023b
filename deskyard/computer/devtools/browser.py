"""The browser of programs: a profile of its own, started when asked for, found again by what it writes down."""

import asyncio
import json
import re
import shutil
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from websockets.exceptions import WebSocketException

from deskyard.computer.devtools.child import Child, exiting
from deskyard.computer.problem import Problem

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PROGRAMS = ("chromium", "google-chrome-stable", "google-chrome")
# Since version 136 Chrome opens no DevTools on the profile that a person uses, and this leaves that alone.
PROFILE = ".config/deskyard-devtools"
# Where Chromium writes its port and the path of its WebSocket, which nobody guesses.
PLACE = "DevToolsActivePort"
LOCK = "SingletonLock"
SAYS_WHERE = re.compile(rb"DevTools listening on (ws://127\.0\.0\.1:\d+/devtools/browser/[A-Za-z0-9-]+)")
PORT, PATH = re.compile(r"\d{1,5}"), re.compile(r"/devtools/browser/[A-Za-z0-9-]+")
OPTIONS = ("--remote-debugging-port=0", "--no-first-run", "--no-default-browser-check")
# A picture of a long page, or a download's content in one answer.
MOST_MESSAGE = 256 << 20
ANSWER_SECONDS = 60.0


class Browser:
    """Chromium with DevTools on a loopback port of its own choice; it outlives the service."""

    def __init__(self, home: Path, command: Sequence[str] = ()) -> None:
        self._profile = home / PROFILE
        self._home = home
        self._command = tuple(command)
        self._starting = asyncio.Lock()
        self._following: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Let go of the browser; it goes on."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    async def running(self) -> "ClientConnection | None":
        """A new connection to the whole browser; None where it does not run."""
        port, path = self._place()
        return await self._reached(port, path) if port else None

    async def started(self, seconds: float) -> "ClientConnection":
        """The same, and it is started if need be; raises `Problem` where no browser comes within so long."""
        async with self._starting:
            connection = await self.running()
            return connection or await self._start(seconds)

    async def page(self, id: str) -> "ClientConnection":
        """A connection to one page of the browser; raises `Problem` (404) if there is none."""
        port, _ = self._place()
        if port and (connection := await self._reached(port, f"/devtools/page/{id}")):
            return connection
        raise Problem(HTTPStatus.NOT_FOUND, "page", id, "is no page of the browser", "see GET /v1/devtools")

    def _place(self) -> tuple[str, str]:
        """The port and the path that the browser wrote down; empty where none ran."""
        try:
            port, path = (self._profile / PLACE).read_text().split("\n")[:2]
        except (OSError, ValueError):
            return "", ""
        return (port, path) if PORT.fullmatch(port) and PATH.fullmatch(path) else ("", "")

    async def _reached(self, port: str, path: str) -> "ClientConnection | None":
        """A connection; none where nobody answers: what a killed browser wrote stays, and its port may be another's."""
        try:
            return await self._connected(f"ws://127.0.0.1:{port}{path}")
        except (OSError, WebSocketException):
            return None

    async def _start(self, seconds: float) -> "ClientConnection":
        program = self._command or (next((name for name in PROGRAMS if shutil.which(name)), ""),)
        if not program[0]:
            reason = "has no Chromium, and Firefox speaks another protocol"
            raise Problem(HTTPStatus.CONFLICT, "browser", None, reason, "use an image with the role `browser`")
        self._profile.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            child = Child([*program, f"--user-data-dir={self._profile}", *OPTIONS, "about:blank"], self._home)
        except OSError as error:
            reason = f"does not start: {error.strerror}"
            raise Problem(HTTPStatus.CONFLICT, "browser", program[0], reason, "install the program") from error
        try:
            await child.listen()
            async with asyncio.timeout(seconds):
                address = await _address(child.says)
        except TimeoutError:
            reason, remedy = f"shows no DevTools within {seconds:g} s", "ask again: it may still start"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, "browser", child.pid, reason, remedy) from None
        finally:
            task = asyncio.create_task(child.follow())
            self._following.add(task)
            task.add_done_callback(self._following.discard)
        if not address:
            reason, remedy = f"ended at once, with {await child.ended()}", f"look whether {program[0]} starts here"
            raise Problem(HTTPStatus.CONFLICT, "browser", program[0], reason, remedy)
        return await self._connected(address)

    async def end(self) -> bool:
        """End the browser, and return when its profile is free; False if none ran."""
        async with self._starting:
            connection = await self.running()
            if connection is None:
                return False
            async with exiting(self._process()) as exited:
                await ask(connection, "Browser.close")
                await connection.close()
                try:
                    await asyncio.wait_for(exited, ANSWER_SECONDS)
                except TimeoutError:
                    reason, remedy = f"has not ended within {ANSWER_SECONDS:g} s", "end its process"
                    raise Problem(HTTPStatus.CONFLICT, "browser", self._process(), reason, remedy) from None
            return True

    def _process(self) -> int:
        """The browser's process, as the lock of its profile names it: `HOST-NUMBER`; 0 where there is none."""
        try:
            number = str((self._profile / LOCK).readlink()).rpartition("-")[2]
        except OSError:
            return 0
        return int(number) if number.isdigit() else 0

    @staticmethod
    async def _connected(address: str) -> "ClientConnection":
        try:
            from websockets.asyncio.client import connect
        except ImportError:
            # Ubuntu's releases have an older one; all else of the service works with it.
            reason, remedy = "needs websockets 13, and this desktop's is older", "use an image on Debian 13"
            raise Problem(HTTPStatus.NOT_IMPLEMENTED, "browser", None, reason, remedy) from None
        # Straight to loopback, whatever the environment says of proxies.
        return await connect(address, proxy=None, max_size=MOST_MESSAGE, compression=None, open_timeout=ANSWER_SECONDS)


async def _address(stderr: asyncio.StreamReader) -> str:
    """Where the browser says that it listens; empty when it ends without a word of that."""
    while line := await stderr.readline():
        if found := SAYS_WHERE.search(line):
            return found[1].decode()
    return ""


async def ask(connection: "ClientConnection", method: str) -> dict[str, Any]:
    """Send the browser a command without parameters and return its result; raises `Problem` if no answer comes."""
    try:
        await connection.send(json.dumps({"id": 1, "method": method}))
        async with asyncio.timeout(ANSWER_SECONDS):
            async for message in connection:
                answer = json.loads(message)
                if answer.get("id") == 1:
                    return dict(answer.get("result", {}))
    except (TimeoutError, WebSocketException, OSError):
        pass
    reason = f"did not answer {method}"
    raise Problem(HTTPStatus.BAD_GATEWAY, "browser", None, reason, "end it (DELETE /v1/devtools), and start it anew")
