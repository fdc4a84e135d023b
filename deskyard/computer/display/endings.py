"""Sessions of the gateway that are over: what they held down is let go at once, and nothing more is done for them.

The gateway says so as it ends them. It also says for how long it has run: when it began, all connections of before had
been cut, and nobody was left at what was down.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.routing import Route

from deskyard.computer.answers.answered import Answered
from deskyard.computer.answers.screen import LetGo
from deskyard.computer.caller import is_gateway
from deskyard.computer.display.acting.drive import Drive
from deskyard.computer.display.watcher import Watcher
from deskyard.computer.display.x_server import XConnection
from deskyard.computer.fields import body, wrong
from deskyard.computer.problem import Problem
from deskyard.wire.computer import MOST_ENDED, SESSIONS_PATH

MOST_SECONDS = 1e10
MOST_ID = 100


class Endings:
    """Takes the gateway's word, and has the thread that hears the X server let go."""

    def __init__(self, watcher: Callable[[], Watcher], drive: Drive) -> None:
        self._watcher = watcher
        self._drive = drive

    def routes(self) -> list[Route]:
        """Its path."""
        return [Route(SESSIONS_PATH, self._put, methods=["PUT"])]

    async def _put(self, request: Request) -> Answered[LetGo]:
        if not is_gateway(request):
            reason = "is for the gateway to say, as it ends them"
            raise Problem(HTTPStatus.FORBIDDEN, "sessions", None, reason, "let keys and buttons go by an action (up)")
        fields = await body(request)
        ended = fields.list("ended", MOST_ENDED, [])
        for index, session in enumerate(ended):
            if not isinstance(session, str) or not 0 < len(session) <= MOST_ID:
                raise wrong(f"ended[{index}]", session, "is no session")
        seconds = fields.number("gateway_seconds", 0, MOST_SECONDS)
        fields.done()
        watcher = self._watcher()

        def end(c: XConnection) -> int:
            count = self._drive.end(ended, seconds, watcher.let_go)
            if count:
                c.settle()  # what is answered is done
            return count

        return Answered({"let_go": await asyncio.wrap_future(watcher.call(end))})
