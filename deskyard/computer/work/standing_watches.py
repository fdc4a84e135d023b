"""The paths of watches whose changes are told among the desktop's events, until they are ended."""

import asyncio
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from deskyard.computer.answers import work as answers
from deskyard.computer.answers.answered import Answered
from deskyard.computer.caller import caller
from deskyard.computer.fields import body, query
from deskyard.computer.problem import Problem
from deskyard.computer.work.paths import resolve
from deskyard.computer.work.telling import Telling
from deskyard.computer.work.watches import Watches
from deskyard.wire.computer import FILES

MOST_STANDING = 16  # the others of the service's watches are for streams, and for E2B's clients


class StandingWatches:
    """Makes, lists and ends them."""

    def __init__(self, home: Path, watches: Watches, telling: Telling) -> None:
        self._home = home
        self._watches = watches
        self._telling = telling
        self._standing: dict[str, tuple[asyncio.Task[None], Path, bool]] = {}

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            Route("/v1/files/watches", self._list, methods=["GET"]),
            Route("/v1/files/watches", self._start, methods=["POST"]),
            Route("/v1/files/watches/{id}", self._stop, methods=["DELETE"]),
        ]

    async def ended(self) -> None:
        """Return when nothing is told any more: the watches are over."""
        if self._standing:
            await asyncio.wait([task for task, *_ in self._standing.values()])

    async def _list(self, request: Request) -> Answered[answers.Watches]:
        caller(request).require(FILES)
        query(request).done()
        return Answered({"watches": [self._described(id) for id in self._standing]})

    async def _start(self, request: Request) -> Answered[answers.StartedWatch]:
        caller(request).require(FILES)
        fields = await body(request)
        path, recursive = resolve(self._home, fields.text("path")), fields.flag("recursive", False)
        fields.done()
        if len(self._standing) >= MOST_STANDING:
            reason, remedy = f"would be more than {MOST_STANDING} at once", "end one that is not needed"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "watch", None, reason, remedy)
        event = self._telling.last
        id, watch = self._watches.start(path, recursive)
        watch.is_kept = True
        task = asyncio.create_task(self._telling.watch(id, watch))
        self._standing[id] = (task, path, recursive)
        task.add_done_callback(lambda _: self._forget(id))
        return Answered({**self._described(id), "event": event}, HTTPStatus.CREATED)

    async def _stop(self, request: Request) -> Response:
        caller(request).require(FILES)
        id = request.path_params["id"]
        if id not in self._standing:
            raise Problem(HTTPStatus.NOT_FOUND, "watch", id, "does not exist", "take an id of GET /v1/files/watches")
        task = self._standing[id][0]
        self._watches.stop(id)
        await asyncio.wait([task])
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def _forget(self, id: str) -> None:
        self._standing.pop(id, None)
        # Where its directory is gone, it is over by itself, and leaves its place.
        self._watches.stop(id)

    def _described(self, id: str) -> answers.Watch:
        _, path, recursive = self._standing[id]
        return {"id": id, "path": str(path), "recursive": recursive}
