"""The paths of windows: what there is, what is done with one, and several side by side."""

from typing import Protocol

from starlette.requests import Request
from starlette.routing import Route

from deskyard.computer.answers.answered import Answered, DoneAfter
from deskyard.computer.answers.screen import ListedWindow, Tiled, Windows
from deskyard.computer.caller import caller
from deskyard.computer.claims import Sink
from deskyard.computer.display import tiling, windows
from deskyard.computer.display.acting.drive import Drive
from deskyard.computer.display.events import UNTRUSTED, Log
from deskyard.computer.display.spaces import window_id
from deskyard.computer.display.x_server import REFUSED, Askers, Line, ScreenGone, gone
from deskyard.computer.fields import body, query, wrong
from deskyard.wire.computer import ACT, SEE


class Screen(Protocol):
    """The screen whose windows they are."""

    log: Log
    drive: Drive
    desk: Line
    asking: Askers

    @property
    def sink(self) -> Sink:
        """Where the record of what was done goes."""

    async def windows(self) -> list[ListedWindow]:
        """The windows as they stand in answers, the topmost last."""


class WindowRoutes:
    """Answers what is asked about windows."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/v1/windows", self._list, methods=["GET"]),
            Route("/v1/windows/tile", self._tile, methods=["POST"]),
            Route("/v1/windows/{id}/{action}", self._act, methods=["POST"]),
        ]

    async def _list(self, request: Request) -> Answered[Windows]:
        caller(request).require(SEE)
        query(request).done()
        found = await self._screen.windows()
        return Answered({"windows": found, "untrusted": list(UNTRUSTED), "event": self._screen.log.last})

    async def _act(self, request: Request) -> Answered[DoneAfter]:
        who = caller(request)
        who.require(ACT)
        window = window_id(request.path_params["id"], "id")
        action = request.path_params["action"]
        note = {"kind": f"window.{action}", "session": who.session, "scope": ACT, "window": window}
        if action not in windows.ACTIONS:
            raise wrong("action", action, "is not known", f"use one of: {', '.join(windows.ACTIONS)}")
        fields = await body(request)
        self._screen.drive.check()

        def act() -> None:
            with self._screen.desk.lock:
                windows.act(self._screen.desk.get(), window, action, fields)

        event = self._screen.log.last
        await self._screen.asking.ask(act)
        self._screen.sink.note(note)
        return Answered({"ok": True, "event": event})

    async def _tile(self, request: Request) -> Answered[Tiled]:
        who = caller(request)
        who.require(ACT)
        fields = await body(request)
        asked = tiling.read(fields)
        fields.done()
        self._screen.drive.check()
        event = self._screen.log.last
        try:
            placed = await self._screen.asking.ask(tiling.tile, self._screen.desk.display, asked)
        except (ScreenGone, *REFUSED) as error:
            raise gone(self._screen.desk.display) from error
        for window in asked.windows:
            self._screen.sink.note({"kind": "window.tile", "session": who.session, "scope": ACT, "window": window})
        return Answered({"ok": True, "windows": placed, "event": event})
