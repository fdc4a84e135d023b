"""E2B's protocol as a part of the service."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from deskyard.computer.envd.filesystem import SERVICE as FILESYSTEM
from deskyard.computer.envd.filesystem import Filesystem
from deskyard.computer.envd.process import SERVICE as PROCESS
from deskyard.computer.envd.process import ProcessService
from deskyard.computer.envd.transfers import Transfers
from deskyard.computer.work.part import Work

# The newest version of envd whose features all work here.
ENVD_VERSION = "0.6.4"


class Envd:
    """Speaks E2B's protocol about the same processes and files as `Work`, which runs and ends them."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def routes(self) -> Sequence[BaseRoute]:
        """The paths that E2B's clients know."""
        home = self._work.home
        return [
            Route("/health", _health, methods=["GET"]),
            *Transfers(home).routes(),
            *Filesystem(home, self._work.watches).routes(),
            *ProcessService(home, self._work.processes).routes(),
            *(Route(f"{service}/{{method}}", _unknown, methods=["POST"]) for service in (FILESYSTEM, PROCESS)),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """Nothing of its own."""
        return _nothing()


@contextlib.asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


async def _health(request: Request) -> Response:
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _unknown(request: Request) -> Response:
    message = f"{request.url.path} is not offered by this desktop"
    return JSONResponse({"code": "unimplemented", "message": message}, HTTPStatus.NOT_IMPLEMENTED)
