"""E2B's upload and download of files: multipart, plain, gzip."""

import asyncio
import os
import stat
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from deskyard.computer.caller import caller
from deskyard.computer.envd import metadata
from deskyard.computer.envd.accounts import require_account
from deskyard.computer.envd.connect import error
from deskyard.computer.problem import Problem
from deskyard.computer.work import files
from deskyard.computer.work.paths import refusals, resolve
from deskyard.wire.computer import FILES

MOST_FILES = 10_000
MULTIPART = "multipart/form-data"

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


class Transfers:
    """`/files` as E2B's clients use it; a file is written in place, as they know it."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def routes(self) -> list[BaseRoute]:
        """Both ways."""
        return [
            Route("/files", _answering(self._download), methods=["GET"]),
            Route("/files", _answering(self._upload), methods=["POST"]),
        ]

    async def _download(self, request: Request) -> Response:
        path = self._path(request.query_params.get("path"))
        opened = await asyncio.to_thread(files.open_file, path)
        content = opened.content(0, opened.size)
        headers = {"Vary": "Accept-Encoding"}
        # Who lists other ways, too, did not ask for it: packing costs more than the way through the gateway.
        if request.headers.get("accept-encoding", "").strip() == "gzip":
            return StreamingResponse(
                _packed(content),
                headers={**headers, "Content-Encoding": "gzip"},
                media_type="application/octet-stream",
            )
        if opened.size is not None:
            headers["Content-Length"] = str(opened.size)
        return StreamingResponse(content, headers=headers, media_type="application/octet-stream")

    async def _upload(self, request: Request) -> Response:
        notes = metadata.asked(request.headers)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        named, content = request.query_params.get("path"), _plain(request)
        if kind != MULTIPART:
            return JSONResponse([await self._written(self._path(named), content, notes)])
        try:
            form = await MultiPartParser(request.headers, content, max_files=MOST_FILES).parse()
        except MultiPartException as problem:
            raise Problem(HTTPStatus.BAD_REQUEST, "body", None, problem.message, "send files as multipart") from None
        written = []
        try:
            uploads = [item for _, item in form.multi_items() if isinstance(item, UploadFile)]
            if named and len(uploads) > 1:
                reason = f"is given for {len(uploads)} files"
                raise Problem(HTTPStatus.BAD_REQUEST, "path", named, reason, "name each in its own part")
            places = [self._path(named or upload.filename) for upload in uploads]
            for place, upload in zip(places, uploads, strict=True):
                written.append(await self._written(place, _chunks(upload), notes))
        finally:
            await form.close()
        return JSONResponse(written)

    async def _written(self, path: Path, content: AsyncIterable[bytes], notes: dict[str, str]) -> dict[str, Any]:
        with refusals(path.parent):
            await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        with refusals(path):
            descriptor, new = _opened(path)
            try:
                if new:
                    os.fchmod(descriptor, 0o644)
                metadata.replace(descriptor, path, notes)
                async for chunk in content:
                    await asyncio.to_thread(files.write_all, descriptor, chunk)
            finally:
                os.close(descriptor)
        found = {"path": str(path), "name": path.name, "type": "file"}
        return {**found, "metadata": notes} if notes else found

    def _path(self, path: str | None) -> Path:
        return Path(os.path.normpath(resolve(self._home, path)))


def _answering(do: Endpoint) -> Endpoint:
    """Says a problem as envd does: a message, and its HTTP status as the code."""

    async def serve(request: Request) -> Response:
        try:
            caller(request).require(FILES)
            require_account(request)
            return await do(request)
        except Problem as problem:
            status = int(problem.status)
            return JSONResponse({"code": status, "message": error(problem)["message"]}, status)

    return serve


def _opened(path: Path) -> tuple[int, bool]:
    """A file opened for writing from its start, and whether it is a new one; what could block is refused."""
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644), True
    except FileExistsError:
        if not stat.S_ISREG(path.stat().st_mode):
            reason = "is a directory" if path.is_dir() else "is not a regular file"
            raise Problem(HTTPStatus.BAD_REQUEST, "path", str(path), reason, "name a file") from None
        return os.open(path, flags | os.O_CREAT | os.O_TRUNC, 0o644), False


async def _chunks(upload: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await upload.read(files.CHUNK):
        yield chunk


async def _packed(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packing = zlib.compressobj(level=1, wbits=31)
    async for chunk in content:
        if packed := packing.compress(chunk):
            yield packed
    yield packing.flush()


async def _plain(request: Request) -> AsyncGenerator[bytes, None]:
    """A request's body, unpacked where it is packed."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        async for chunk in request.stream():
            yield chunk
        return
    if encoding != "gzip":
        raise Problem(HTTPStatus.BAD_REQUEST, "content-encoding", encoding, "is not known", "send gzip, or plain")
    unpacking = zlib.decompressobj(wbits=31)
    try:
        async for chunk in request.stream():
            while chunk:
                # In steps, so that a small body cannot become a large piece of memory.
                yield unpacking.decompress(chunk, files.CHUNK)
                chunk = unpacking.unconsumed_tail
        yield unpacking.flush()
    except zlib.error:
        raise Problem(HTTPStatus.BAD_REQUEST, "body", None, "is not gzip", "pack it, or send it plain") from None
    if not unpacking.eof:
        raise Problem(HTTPStatus.BAD_REQUEST, "body", None, "ends before its gzip does", "send all of it")
