"""Launching as a part of the service: applications, commands, and files and addresses by what opens them."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from deskyard.computer.answers.answered import Answered
from deskyard.computer.answers.screen import Applications, Launched, Window
from deskyard.computer.caller import Caller, caller
from deskyard.computer.claims import digest
from deskyard.computer.display.events import READY, UNTRUSTED, Wait
from deskyard.computer.display.part import Display
from deskyard.computer.fields import Fields, body, query, wrong
from deskyard.computer.launch.applications import Application, folders, installed
from deskyard.computer.problem import Problem
from deskyard.computer.work.process_forms import argv_of
from deskyard.wire.computer import ACT, SEE, SHELL

MOST_TARGETS = 50
MOST_WITHIN_MS = 600_000
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\0\s]+")
APPLICATION, OPEN, COMMAND = "application", "open", "command"
NOTHING, WINDOW, TAKES_KEYS = AWAITED = ("nothing", "window", "ready")
# What a program that was there already does for one that asks it.
CAME_FORWARD = ("window.appeared", "window.focus")


class Launch:
    """Starts programs on the display; they outlive the service, as those that a person starts."""

    def __init__(self, display: Display, home: Path | None = None) -> None:
        self._display = display
        self._home = home or Path.home()
        self._watching: set[asyncio.Task[int]] = set()

    def routes(self) -> Sequence[BaseRoute]:
        """The paths of launching."""
        return [
            Route("/v1/applications", self._applications, methods=["GET"]),
            Route("/v1/launch", self._launch, methods=["POST"]),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """Nothing that would have to be ended: what was started stays."""
        return self._running()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        yield
        for task in self._watching:
            task.cancel()

    async def _installed(self) -> dict[str, Application]:
        return await asyncio.to_thread(installed, folders(os.environ, self._home))

    async def _applications(self, request: Request) -> Answered[Applications]:
        caller(request).require(SEE)
        query(request).done()
        found = await self._installed()
        listed = [application.described() for application in found.values()]
        return Answered({"applications": listed, "untrusted": ["name", "comment"]})

    async def _launch(self, request: Request) -> Answered[Launched]:
        who = caller(request)
        who.require(ACT)
        fields = await body(request)
        field, argv = await self._order(who, fields)
        awaited = fields.choice("wait", AWAITED, WINDOW)
        seconds = fields.integer("within_ms", 1, MOST_WITHIN_MS, 60_000) / 1000
        fields.done()
        self._display.drive.check()
        after = self._display.log.last
        note = {"kind": "launch", "session": who.session, "scope": ACT, "program": argv[0], "arguments": len(argv) - 1}
        if field == COMMAND:
            note |= {"scope": SHELL, "command_sha256": digest("\0".join(argv))}
        process = await self._started(argv, note, field)
        answer: Launched = {"ok": True, "pid": process.pid, "window": None, "event": after}
        if awaited != NOTHING:
            answer["window"] = await self._window(process, after, seconds, awaited)
            answer["untrusted"] = list(UNTRUSTED)
        return Answered(answer)

    async def _order(self, who: Caller, fields: Fields) -> tuple[str, list[str]]:
        """The field that says what is started, and its program with arguments."""
        given = [field for field in (APPLICATION, OPEN, COMMAND) if fields.given(field)]
        if len(given) > 1:
            remedy = "give application with its targets, open or command"
            raise wrong(given[1], None, f"stands beside {given[0]}", remedy)
        if given == [COMMAND]:
            # It is a process like any other, only that its window is awaited.
            who.require(SHELL)
            return COMMAND, list(argv_of(fields.take(COMMAND)))
        if given == [OPEN]:
            # The desktop's own choice of programs, which a person sets in its settings.
            return OPEN, ["xdg-open", self._target(fields.take(OPEN), OPEN)]
        return APPLICATION, await self._argv(fields)

    async def _argv(self, fields: Fields) -> list[str]:
        id = fields.text("application")
        given = fields.list("targets", MOST_TARGETS, [])
        targets = tuple(self._target(target, f"targets[{index}]") for index, target in enumerate(given))
        found = await self._installed()
        application = found.get(id) or found.get(f"{id}.desktop")
        if application is None:
            remedy = "take an id of GET /v1/applications"
            raise Problem(HTTPStatus.NOT_FOUND, "application", id, "is no installed application", remedy)
        return application.argv(targets)

    def _target(self, value: object, field: str) -> str:
        """A file or an address; never an option of the program."""
        if isinstance(value, str) and "\0" not in value and len(value) <= 4096:
            if ADDRESS.fullmatch(value):
                return value
            path = self._home / value.removeprefix("~/") if value.startswith("~/") else Path(value)
            if path.is_absolute():
                if not os.path.lexists(path):
                    reason, remedy = "does not exist", "write the file first, or give an address such as https://..."
                    raise Problem(HTTPStatus.NOT_FOUND, field, value, reason, remedy)
                return str(path)
        raise wrong(field, value, "is neither a file nor an address", "give an absolute path, or such as https://...")

    async def _started(self, argv: list[str], note: dict[str, Any], field: str) -> asyncio.subprocess.Process:
        null = asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=null, stdout=null, stderr=null, cwd=self._home, start_new_session=True
            )
        except (OSError, ValueError) as error:
            self._display.sink.note(note | {"ok": False, "error": field})
            reason = f"does not start: {error}"
            raise Problem(HTTPStatus.CONFLICT, field, argv[0], reason, "install the program") from error
        self._display.sink.note(note | {"ok": True, "pid": process.pid})
        return process

    async def _window(self, process: asyncio.subprocess.Process, after: int, seconds: float, awaited: str) -> Window:
        """The window that came of it, and takes keys if that is asked."""
        ended = asyncio.create_task(process.wait())
        self._watching.add(ended)
        ended.add_done_callback(self._watching.discard)
        try:
            async with asyncio.timeout(seconds):
                window = await self._appeared(process, after, ended)
                if awaited == TAKES_KEYS:
                    await self._display.log.conditions[READY](Wait(READY, seconds, {"id": window}))
                return await self._display.window(window, "window")
        except TimeoutError:
            reason = f"shows no such window within {seconds:g} s"
            remedy = "look at the screen and at GET /v1/windows: the program may still start"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, "launch", process.pid, reason, remedy) from None

    async def _appeared(self, process: asyncio.subprocess.Process, after: int, ended: "asyncio.Task[int]") -> int:
        showing = asyncio.create_task(self._shown(process.pid, after, ended))
        try:
            await asyncio.wait([ended, showing], return_when=asyncio.FIRST_COMPLETED)
            if not showing.done():
                if code := ended.result():
                    reason, remedy = f"ended at once, with {code}", "run its command to see what it says"
                    raise Problem(HTTPStatus.CONFLICT, "launch", process.pid, reason, remedy)
                # It handed its work to another, which may have shown it already.
                forward = [event["id"] for event in self._display.log.since(after)[0] if _came_forward(event)]
                if forward:
                    return int(forward[-1])
            return await showing
        finally:
            showing.cancel()

    async def _shown(self, pid: int, after: int, ended: "asyncio.Task[int]") -> int:
        async with contextlib.aclosing(self._display.log.stream(after)) as events:  # type: ignore[type-var]
            async for event in events:
                own = event["event"] == "window.appeared" and _session(event["pid"]) == pid
                if own or (ended.done() and _came_forward(event)):
                    return int(event["id"])
        raise TimeoutError


def _came_forward(event: dict[str, Any]) -> bool:
    return event["event"] in CAME_FORWARD and bool(event["id"])


def _session(pid: int | None) -> int:
    """The session of a process, which is that of the program by which it was started."""
    try:
        return os.getsid(pid) if pid else 0
    except OSError:
        return 0
