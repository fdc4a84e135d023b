"""Recording as a part of the service: what is recorded is told, listed, read and removed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from deskyard.computer.answers import screen as answers
from deskyard.computer.answers.answered import Answered, Done
from deskyard.computer.caller import caller
from deskyard.computer.claims import Sink, claim, digest
from deskyard.computer.display.events import Log
from deskyard.computer.display.part import read_query
from deskyard.computer.fields import Fields, wrong
from deskyard.computer.privacy import Privacy
from deskyard.computer.problem import Problem
from deskyard.computer.recording.asked import PATH
from deskyard.computer.recording.declared import Declared
from deskyard.computer.recording.recorder import Limits, Noting, Recorder
from deskyard.computer.recording.segment import ACTIONS, FRAMES, Entry
from deskyard.computer.recording.shelf import Shelf
from deskyard.computer.streaming.part import Streaming
from deskyard.computer.work import files
from deskyard.computer.work.file_routes import part_of
from deskyard.wire.computer import FILES, RECORDINGS_PATH, SEE

FOLDER = ".local/share/deskyard/recordings"
MOST_LISTED = 1000
MEDIA_TYPES = {FRAMES: "application/octet-stream", ACTIONS: "application/x-ndjson"}


class Recordings:
    """The recordings of a display; there are none unless root's file asks for them."""

    def __init__(
        self,
        streaming: Streaming,
        folder: Path | None = None,
        settings: Path = Path(PATH),
        limits: Limits | None = None,
    ) -> None:
        self._streaming = streaming
        self._shelf = Shelf(folder or Path.home() / FOLDER)
        self._recorder = Recorder(self._shelf, limits)
        self._declared = Declared(settings)
        self._log: Log | None = None

    def noting(self, sink: Sink) -> Sink:
        """A sink that also notes in the recording what is done."""
        return Noting(sink, self._recorder)

    def hears(self, log: Log, privacy: Privacy) -> None:
        """Hear and tell events there; nothing is recorded while a person wants privacy."""
        self._log = log
        log.listeners.append(self._recorder.hear)
        privacy.hear(self._declared.hide)

    def routes(self) -> Sequence[BaseRoute]:
        """The paths of what is recorded."""
        return [
            Route(RECORDINGS_PATH, self._list, methods=["GET"]),
            Route(f"{RECORDINGS_PATH}/{{id}}", self._describe, methods=["GET"]),
            Route(f"{RECORDINGS_PATH}/{{id}}", self._remove, methods=["DELETE"]),
            Route(f"{RECORDINGS_PATH}/{{id}}/frames", self._frames, methods=["GET"]),
            Route(f"{RECORDINGS_PATH}/{{id}}/actions", self._actions, methods=["GET"]),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """Records as long as the service runs; what is open is closed with it."""
        return self._running()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        # What cannot be read is no reason not to serve.
        with contextlib.suppress(OSError):
            await self._recorder.on_disk(self._shelf.find)
        with self._declared.followed():
            recording = asyncio.ensure_future(self._recorder.run(self._declared, self._streaming, self._tell))
            try:
                yield
            finally:
                recording.cancel()
                await asyncio.wait([recording])
                self._recorder.close()

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        if self._log:
            self._log.tell(kind, data)

    async def _list(self, request: Request) -> Answered[answers.Recordings]:
        caller(request).require(SEE)
        after, most = read_query(request, _page)
        bounds = self._declared.recording
        entries = self._shelf.entries()
        found = [entry.described(is_open) for entry, is_open in entries if int(entry.id) > after]
        answer: answers.Recordings = {
            "state": self._recorder.state,
            "bytes": self._shelf.total,
            "count": len(entries),
            "recordings": found[:most],
        }
        if self._recorder.reason:
            answer["reason"] = self._recorder.reason
        if bounds:
            answer["keep_seconds"], answer["size_bytes"] = bounds.keep_seconds, bounds.size_bytes
        if self._log:
            answer["event"] = self._log.last
        return Answered(answer)

    def _entry(self, request: Request) -> tuple[Entry, bool]:
        id = request.path_params["id"]
        read_query(request, lambda fields: None)
        for entry, is_open in self._shelf.entries():
            if entry.id == id:
                return entry, is_open
        reason = "is no recording: it never was one, or has been removed"
        raise Problem(HTTPStatus.NOT_FOUND, "recording", id, reason, "see GET /v1/recordings")

    async def _describe(self, request: Request) -> Answered[answers.Recording]:
        caller(request).require(SEE)
        return Answered(Entry.described(*self._entry(request)))

    async def _frames(self, request: Request) -> Response:
        return await self._content(request, FRAMES)

    async def _actions(self, request: Request) -> Response:
        return await self._content(request, ACTIONS)

    async def _content(self, request: Request, kind: str) -> Response:
        who = caller(request)
        who.require(SEE)
        # Who may look now has not been allowed to look at yesterday.
        who.require(FILES)
        entry, _ = self._entry(request)
        path = self._shelf.folder / f"{entry.id}{kind}"
        return part_of(await asyncio.to_thread(files.open_file, path), request, MEDIA_TYPES[kind])

    async def _remove(self, request: Request) -> Answered[Done]:
        # Who may remove any file could remove these as well.
        caller(request).require(FILES)
        entry, is_open = self._entry(request)
        if is_open:
            reason = "is still being written"
            raise Problem(HTTPStatus.CONFLICT, "recording", entry.id, reason, "wait until the next one has begun")
        await self._recorder.on_disk(self._shelf.remove, entry.id)
        claim({"kind": "recording.remove", "scope": FILES, "path_sha256": digest(str(self._shelf.folder / entry.id))})
        return Answered({"ok": True})


def _page(fields: Fields) -> tuple[int, int]:
    """After which segment, and how many."""
    after = fields.text("after", "0", 20)
    if not (after.isascii() and after.isdigit()):
        raise wrong("after", after, "is no segment's id", "give the id of the last one that you know")
    return int(after), fields.integer("most", 1, MOST_LISTED, MOST_LISTED)
