"""The path of the drive: who has it, and where the pointer is; it is handed over, and a person stops the agent."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, Protocol

from starlette.requests import Request
from starlette.routing import Route

from deskyard.computer.answers.answered import Answered
from deskyard.computer.answers.screen import Driver, Driving, Pixel
from deskyard.computer.caller import Caller, caller
from deskyard.computer.display.acting.drive import Drive, Release
from deskyard.computer.display.events import Log
from deskyard.computer.display.watcher import ANSWER_SECONDS, UNANSWERED
from deskyard.computer.display.x_server import XConnection
from deskyard.computer.fields import body
from deskyard.computer.peers import is_roots
from deskyard.computer.privacy import Privacy
from deskyard.computer.problem import Problem
from deskyard.wire.computer import ACT, SEE


class Listener(Protocol):
    """The thread that hears the X server."""

    def call(self, function: Callable[[XConnection], Any]) -> "Future[Any]":
        """Have the thread do something on its connection."""

    def let_go(self, releases: list[Release]) -> None:
        """Let go of what the agent held, on this thread's connection."""


class Screen(Protocol):
    """The screen that is driven."""

    log: Log
    drive: Drive
    privacy: Privacy

    async def taken(self, why: str) -> None:
        """A person takes the drive, by another way than a key."""


class DriveRoutes:
    """Answers who drives, and has it change."""

    def __init__(self, screen: Screen, listener: Callable[[], Listener]) -> None:
        self._screen = screen
        self._drive = screen.drive
        self._listener = listener

    def routes(self) -> list[Route]:
        """Its path."""
        return [
            Route("/v1/drive", self._get, methods=["GET"]),
            Route("/v1/drive", self._post, methods=["POST"]),
        ]

    async def _get(self, request: Request) -> Answered[Driving]:
        caller(request).require(SEE)
        pointer = await self._pointer()
        return Answered({**self._driver(), "pointer": pointer})

    async def _post(self, request: Request) -> Answered[Driver]:
        who = caller(request)
        who.require(ACT)
        fields = await body(request)
        if fields.given("stopped"):
            stopped = fields.flag("stopped")
            fields.done()
            await self._stop(request, stopped)
        else:
            driver = fields.choice("driver", ("person", "agent"))
            fields.done()
            await self._hand_over(who, driver)
        return Answered(self._driver())

    def _driver(self) -> Driver:
        return {"driver": self._drive.driver, "stopped": self._drive.stopped, "event": self._screen.log.last}

    async def _pointer(self) -> Pixel | None:
        """Where the pointer is, unless a person wants privacy or the X server does not say in time."""
        privacy = self._screen.privacy
        times = privacy.times
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                at = await asyncio.wrap_future(self._listener().call(XConnection.pointer))
        except UNANSWERED:
            return None
        # Privacy may have begun meanwhile, and be over again.
        if at is None or privacy.is_on or times != privacy.times:
            return None
        return {"x": at[0], "y": at[1]}

    async def _stop(self, request: Request, stopped: bool) -> None:
        """Stop the agent, or let it go on: for root of this desktop, which is the program that halts it."""
        if not is_roots(request):
            reason = "is for the desktop to say, as a person wants it"
            raise Problem(HTTPStatus.FORBIDDEN, "stopped", stopped, reason, "use the button of the desktop's page")
        listener = self._listener()
        if stopped:
            await asyncio.wrap_future(listener.call(lambda c: self._drive.stop(listener.let_go)))
        else:
            # On that thread, which looks then whether the person has left meanwhile.
            await asyncio.wrap_future(listener.call(lambda c: self._drive.go_on()))

    async def _hand_over(self, who: Caller, driver: str) -> None:
        if driver == "agent" and who.session and self._drive.driver == "person":
            reason = "is the person's to give: they leave when they have done nothing for a while"
            raise Problem(HTTPStatus.FORBIDDEN, "driver", driver, reason, "wait for the event person.left")
        if driver == "agent":
            self._drive.person_leaves("hand-over")
        else:
            await self._screen.taken("hand-over")
