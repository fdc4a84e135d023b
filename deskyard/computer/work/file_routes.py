"""The paths of the service about files."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from deskyard.computer.answers import work as answers
from deskyard.computer.answers.answered import Answered
from deskyard.computer.caller import caller
from deskyard.computer.claims import claim, digest
from deskyard.computer.fields import Fields, body, query, wrong
from deskyard.computer.streams import ALIVE, ALIVE_SECONDS, event, or_silence, sent
from deskyard.computer.work import files
from deskyard.computer.work.entries import below, look
from deskyard.computer.work.paths import resolve
from deskyard.computer.work.watches import Watch, Watches
from deskyard.wire.computer import FILES, UNTRUSTED_HEADER

# What of an entry others may have named.
NAMES = ("name", "path", "link")


class FileRoutes:
    """Answers what is asked about files; each path is below the home, or absolute."""

    def __init__(self, home: Path, watches: Watches) -> None:
        self._home = home
        self._watches = watches

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            Route("/v1/files", self.list, methods=["GET"]),
            Route("/v1/files", self.remove, methods=["DELETE"]),
            Route("/v1/files/entry", self.entry, methods=["GET"]),
            Route("/v1/files/content", self.read, methods=["GET"]),
            Route("/v1/files/content", self.write, methods=["PUT"]),
            Route("/v1/files/directory", self.make_directory, methods=["POST"]),
            Route("/v1/files/move", self.move, methods=["POST"]),
            Route("/v1/files/events", self.watch, methods=["GET"]),
        ]

    async def list(self, request: Request) -> Answered[answers.Entries]:
        """List a directory, down to a depth."""
        fields = _query(request)
        path, depth = resolve(self._home, fields.text("path", "~")), fields.integer("depth", 1, files.DEEPEST, 1)
        fields.done()
        entries, cut = await asyncio.to_thread(below, path, depth)
        described = [entry.described() for entry in entries]
        return Answered({"path": str(path), "entries": described, "truncated": cut, "untrusted": list(NAMES)})

    async def entry(self, request: Request) -> Answered[answers.MarkedEntry]:
        """Describe the file, directory or link at a path."""
        entry = await asyncio.to_thread(look, self._only_path(request))
        return Answered({**entry.described(), "untrusted": list(NAMES)})

    async def read(self, request: Request) -> Response:
        """A file's content, or the part that the Range header asks for."""
        answer = part_of(await asyncio.to_thread(files.open_file, self._only_path(request)), request)
        answer.headers[UNTRUSTED_HEADER] = "body"
        return answer

    async def write(self, request: Request) -> Answered[answers.Entry]:
        """Write a file from the request's body."""
        fields = _query(request)
        path, mode = resolve(self._home, fields.text("path")), _mode(fields)
        parents, overwrite = fields.flag("parents", True), fields.flag("overwrite", True)
        fields.done()
        entry = await files.write(path, request.stream(), mode, parents, overwrite)
        _claim("write", path)
        return Answered(entry.described())

    async def make_directory(self, request: Request) -> Answered[answers.Entry]:
        """Make a directory."""
        fields = await _asked(request)
        path, parents = resolve(self._home, fields.text("path")), fields.flag("parents", True)
        fields.done()
        entry = await asyncio.to_thread(files.make_directory, path, parents)
        _claim("directory", path)
        return Answered(entry.described(), HTTPStatus.CREATED)

    async def move(self, request: Request) -> Answered[answers.Entry]:
        """Move a file or directory."""
        fields = await _asked(request)
        source = resolve(self._home, fields.text("source"), "source")
        destination = resolve(self._home, fields.text("destination"), "destination")
        overwrite = fields.flag("overwrite", False)
        fields.done()
        entry = await asyncio.to_thread(files.move, source, destination, overwrite)
        _claim("move", source)
        _claim("moved", destination)
        return Answered(entry.described())

    async def remove(self, request: Request) -> Response:
        """Remove what stands at a path."""
        fields = _query(request)
        path, recursive = resolve(self._home, fields.text("path")), fields.flag("recursive", False)
        fields.done()
        await asyncio.to_thread(files.remove, path, recursive)
        _claim("remove", path)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def watch(self, request: Request) -> Response:
        """The changes in a directory as server-sent events, from now on."""
        fields = _query(request)
        path, recursive = resolve(self._home, fields.text("path")), fields.flag("recursive", False)
        fields.done()
        return sent(self._changes(*self._watches.start(path, recursive)))

    async def _changes(self, name: str, watch: Watch) -> AsyncIterator[bytes]:
        try:
            yield event("watching", {"path": str(watch.root)})
            async for changes in or_silence(watch.next, ALIVE_SECONDS):
                if changes is None:
                    yield ALIVE
                    continue
                if not changes:
                    return
                for change in changes:
                    yield event("change", {"kind": change.kind, "path": change.path, "untrusted": ["path"]})
        finally:
            self._watches.stop(name)

    def _only_path(self, request: Request) -> Path:
        fields = _query(request)
        path = resolve(self._home, fields.text("path"))
        fields.done()
        return path


def part_of(opened: files.Opened, request: Request, media_type: str = "application/octet-stream") -> Response:
    """The answer with an open file's content, or with the part that the request's Range header asks for."""
    headers, status, start, length = {"ETag": opened.tag}, HTTPStatus.OK, 0, opened.size
    asked, unless = request.headers.get("range"), request.headers.get("if-range")
    if opened.size is not None:
        headers["Accept-Ranges"] = "bytes"
        if asked and unless in (None, opened.tag):
            try:
                start, length = files.part(asked, opened.size)
            except BaseException:
                opened.file.close()
                raise
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{opened.size}"
        headers["Content-Length"] = str(length)
    content = opened.content(start, length)
    return StreamingResponse(content, status, headers=headers, media_type=media_type)


def _query(request: Request) -> Fields:
    caller(request).require(FILES)
    return query(request)


async def _asked(request: Request) -> Fields:
    caller(request).require(FILES)
    return await body(request)


def _claim(kind: str, path: Path) -> None:
    claim({"kind": f"files.{kind}", "scope": FILES, "path_sha256": digest(str(path))})


def _mode(fields: Fields) -> int | None:
    said = fields.take("mode", None)
    if said is None:
        return None
    try:
        mode = int(said, 8)
    except (TypeError, ValueError):
        mode = -1
    if not 0 <= mode <= 0o777:
        raise wrong("mode", said, "is not permissions in octal", "give three digits such as 644")
    return mode
