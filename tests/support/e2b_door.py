"""The door for E2B's clients in a thread of its own; it is ended and started again on the same port and file."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
from deskyard_e2b import web
from deskyard_e2b.ending import STOP
from deskyard_e2b.keeping import Keeping
from deskyard_e2b.keyring import Opens
from deskyard_e2b.naming import NOWHERE, Choice
from deskyard_sdk.mission import AsyncMissionControl, DesktopState
from e2b import Sandbox

SECONDS = 60


@dataclass
class Served:
    """A running program; `opens` gives Mission Control by a key."""

    state: Path
    opens: Opens
    default: Choice = field(default_factory=Choice)
    action: str = STOP
    port: int = 0
    certificate: str | None = None  # with its key, as files
    key: str | None = None
    domain: str = NOWHERE
    program: web.Program | None = None
    _server: web.Ready | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        where = web.Listening(port=self.port, certificate=self.certificate, key=self.key)
        listening = where.open()
        self.port = listening.getsockname()[1]
        ready = threading.Event()

        async def serve() -> None:
            keeping = Keeping(self.state)
            try:
                self.program = web.compose(keeping, self.opens, self.default, self.action, domain=self.domain)
                self._server = web.server(self.program, where, ready.set)
                await self._server.serve(sockets=[listening])
            finally:
                keeping.close()

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        assert ready.wait(SECONDS)

    def stop(self) -> None:
        """End it, as Ctrl-C does."""
        if self._thread and self._server:
            self._server.should_exit = True
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()
            self._thread = None

    def restart(self) -> None:
        """The same program once more: it knows what it kept."""
        self.stop()
        self.start()

    def with_key(self, key: str) -> dict[str, Any]:
        """What E2B's client is given instead of its variables."""
        return {"api_key": key, "api_url": self.url, "sandbox_url": self.url}

    def for_javascript(self, key: str) -> dict[str, Any]:
        """The same for its client in JavaScript."""
        return {"apiKey": key, "apiUrl": self.url, "sandboxUrl": self.url}

    def create(self, key: str, **options: Any) -> Sandbox:
        """A new sandbox by E2B's client."""
        return Sandbox.create(**options, **self.with_key(key))

    def connect(self, key: str, id: str, **options: Any) -> Sandbox:
        """A sandbox that there is."""
        return Sandbox.connect(id, **options, **self.with_key(key))


class Linked(AsyncMissionControl):
    """A Mission Control that knows desktops which run, and asks `link` for links, with the scopes that are wanted."""

    def __init__(self, link: Callable[[str], str], ca: str) -> None:
        super().__init__(httpx.AsyncClient(verify=False), ca)
        self._link = link

    async def desktop(self, id: str) -> DesktopState:
        """Any of them: it runs."""
        stands = {"workspaceId": id.partition(".")[0], "tier": "free", "state": "ready", "operation": None}
        return cast(DesktopState, {"id": id, "stateAt": "2026-01-01T00:00:00Z", **stands})

    async def link(self, id: str, mode: str = "drive", scopes: Sequence[str] | None = None) -> str:
        """A link for a program."""
        return await asyncio.to_thread(self._link, ",".join(scopes or ()))


@contextlib.contextmanager
def served(state: Path, opens: Opens, **options: Any) -> Iterator[Served]:
    """A running program, ended on the way out."""
    found = Served(state, opens, **options)
    found.start()
    try:
        yield found
    finally:
        found.stop()
