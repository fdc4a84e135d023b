"""The service as an ASGI application: the routes of its parts, and one form for all refusals."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from deskyard.computer.claims import Claims
from deskyard.computer.privacy import Gate, Privacy
from deskyard.computer.problem import Problem, answer


class Part(Protocol):
    """Something that the service offers: its routes, and what runs as long as it does."""

    def routes(self) -> Sequence[BaseRoute]:
        """The paths of the part, all below /v1/."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """The part's connections and tasks, ended on the way out."""


def create(parts: Sequence[Part], privacy: Privacy | None = None) -> Starlette:
    """The application of these parts; a desktop with a screen has its privacy."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for part in parts:
                await stack.enter_async_context(part.running())
            yield

    own = privacy.routes() if privacy else []
    return Starlette(
        routes=[Route("/healthz", _healthz), *own, *(route for part in parts for route in part.routes())],
        exception_handlers={Problem: answer},
        # What was done before the gate fell is claimed all the same.
        middleware=[Middleware(Claims), *([Middleware(Gate, privacy=privacy)] if privacy else [])],
        lifespan=lifespan,
    )


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")
