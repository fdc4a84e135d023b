"""The paths of the clipboard: its text as JSON, its picture as PNG."""

import asyncio
import io
from collections.abc import Callable
from http import HTTPStatus

from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deskyard.computer.answers.answered import Answered, Done
from deskyard.computer.answers.screen import ClipboardText
from deskyard.computer.caller import caller
from deskyard.computer.claims import claim, digest
from deskyard.computer.display.acting.drive import Drive
from deskyard.computer.display.clipboard import MOST, MOST_PICTURE, MOST_TEXT, PICTURE, TEXT
from deskyard.computer.display.watcher import Watcher
from deskyard.computer.fields import body, content, query, wrong
from deskyard.computer.problem import Problem
from deskyard.wire.computer import ACT, SEE, UNTRUSTED_HEADER

TARGETS = {"text": TEXT, "png": PICTURE}


class ClipboardRoutes:
    """Answers what is asked about the clipboard, by the thread that takes part in it."""

    def __init__(self, watcher: Callable[[], Watcher], drive: Drive) -> None:
        self._watcher = watcher
        self._drive = drive

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/v1/clipboard", self._get, methods=["GET"]),
            Route("/v1/clipboard", self._put, methods=["PUT"]),
        ]

    async def _get(self, request: Request) -> Answered[ClipboardText] | Response:
        caller(request).require(SEE)
        fields = query(request)
        format = fields.choice("format", tuple(TARGETS), "text")
        fields.done()
        watcher = self._watcher()
        asked = await asyncio.wrap_future(watcher.call(lambda c: watcher.clipboard.read(c, TARGETS[format])))
        found: bytes = await asyncio.wrap_future(asked)
        most = MOST[TARGETS[format]]
        if len(found) > most:
            reason = f"holds a {'text' if format == 'text' else 'picture'} of more than {most} bytes"
            remedy = "save it to a file, and read that"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "clipboard", None, reason, remedy)
        if format == "text":
            return Answered({"text": found.decode("utf-8", "replace"), "untrusted": ["text"]})
        if not found:
            raise Problem(HTTPStatus.NOT_FOUND, "clipboard", None, "holds no picture", "ask for its text")
        headers = {"cache-control": "no-store", UNTRUSTED_HEADER: "body"}
        return Response(found, media_type=PICTURE, headers=headers)

    async def _put(self, request: Request) -> Answered[Done]:
        caller(request).require(ACT)
        watcher = self._watcher()
        if request.headers.get("content-type", "").partition(";")[0].strip() == PICTURE:
            png = await content(request, MOST_PICTURE)
            await asyncio.to_thread(_must_be_png, png)
            self._drive.check()
            await asyncio.wrap_future(watcher.call(lambda c: watcher.clipboard.put_picture(c, png)))
            claim({"kind": "clipboard.picture", "scope": ACT})
            return Answered({"ok": True})
        fields = await body(request)
        text = fields.text("text", most=MOST_TEXT // 4)
        fields.done()
        self._drive.check()
        await asyncio.wrap_future(watcher.call(lambda c: watcher.clipboard.put(c, text)))
        claim({"kind": "clipboard.text", "scope": ACT, "text_sha256": digest(text)})
        return Answered({"ok": True})


def _must_be_png(data: bytes) -> None:
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
            picture.verify()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise wrong("body", None, "is no PNG picture", "send one with Content-Type: image/png") from error
