"""Streams as a part of the service: made, listed, looked at, and ended."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import HTTPConnection, Request
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from deskyard.computer.answers import screen as answers
from deskyard.computer.answers.answered import Answered, Done
from deskyard.computer.caller import caller
from deskyard.computer.display.part import read_query
from deskyard.computer.display.spaces import region_of, window_id
from deskyard.computer.display.x_server import REFUSED, ScreenGone, gone
from deskyard.computer.fields import Fields, body, wrong
from deskyard.computer.problem import Problem, deny
from deskyard.computer.streaming.budget import Budget
from deskyard.computer.streaming.channel import Channel
from deskyard.computer.streaming.scene import Gone, Scene, ScreenScene, WindowScene
from deskyard.computer.streaming.stream import Stream
from deskyard.computer.streaming.studio import Studio
from deskyard.computer.streaming.viewer import Viewer
from deskyard.wire.computer import PAGE_HEADER, SEE, STREAMS_PATH

MOST_STREAMS = 16
MOST_VIEWERS = 64
MOST_ENDED = 100  # of which it is known why they ended
PIXELS_PER_SECOND = 100_000_000  # taken and packed, of all streams together
DELETED = "the stream was deleted"


@dataclass(frozen=True)
class Shared:
    """A stream that channels share, and its begin, which each of them waits for."""

    stream: Stream
    begun: "asyncio.Task[None]"


class Streaming:
    """The streams of one display."""

    def __init__(self, display: str, pixels_per_second: int = PIXELS_PER_SECOND) -> None:
        self._display = display
        self._budget = Budget(pixels_per_second)
        self._studio = Studio(display, self._budget)
        self._packing = ThreadPoolExecutor(2, "packing")
        self._channels: dict[str, Channel] = {}
        self._shared: dict[str, Shared] = {}  # by what they show
        self._ended: OrderedDict[str, str] = OrderedDict()

    def routes(self) -> Sequence[BaseRoute]:
        """The paths of the streams."""
        return [
            Route(STREAMS_PATH, self._list, methods=["GET"]),
            Route(STREAMS_PATH, self._create, methods=["POST"]),
            Route(f"{STREAMS_PATH}/{{id}}", self._describe, methods=["GET"]),
            Route(f"{STREAMS_PATH}/{{id}}", self._delete, methods=["DELETE"]),
            WebSocketRoute(f"{STREAMS_PATH}/{{id}}", self._look),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """Nothing runs before there is a stream; all of them end with the service."""
        return self._running()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(self._studio.stop)
            self._packing.shutdown(wait=True, cancel_futures=True)

    def _alive(self) -> dict[str, Channel]:
        for id in [id for id, channel in self._channels.items() if channel.over]:
            self._ended[id] = self._channels.pop(id).over
        self._shared = {key: shared for key, shared in self._shared.items() if not shared.stream.over}
        while len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)
        return self._channels

    def _channel(self, connection: HTTPConnection) -> Channel:
        caller(connection).require(SEE)
        id = connection.path_params["id"]
        channel = self._alive().get(id)
        if channel is None and id in self._ended:
            raise Problem(HTTPStatus.GONE, "stream", id, self._ended[id], "make a new one: POST /v1/streams")
        if channel is None:
            raise Problem(HTTPStatus.NOT_FOUND, "stream", id, "is no stream", "see GET /v1/streams")
        return channel

    async def _list(self, request: Request) -> Answered[answers.Streams]:
        caller(request).require(SEE)
        read_query(request, lambda fields: None)
        found = [_described(request, channel) for channel in self._alive().values()]
        return Answered({"streams": found, "most": MOST_STREAMS})

    async def _describe(self, request: Request) -> Answered[answers.Stream]:
        channel = self._channel(request)
        read_query(request, lambda fields: None)
        return Answered(_described(request, channel))

    async def _create(self, request: Request) -> Answered[answers.Stream]:
        caller(request).require(SEE)
        fields = await body(request)
        about, scene = _asked(fields)
        fields.done()
        await self._make_room()
        return Answered(_described(request, await self._open(about, scene)))

    async def _open(self, about: answers.Shown, scene: Scene) -> Channel:
        """A channel of its own to what all that asked for the same look at."""
        key = str(sorted(about.items()))
        self._alive()
        before = self._shared.get(key)
        stream = before.stream if before else self._stream_of(about, scene)
        shared = before or Shared(stream, asyncio.ensure_future(self._answered(stream, self._studio.add(stream))))
        self._shared[key] = shared
        channel = Channel(stream)
        stream.audience.append(channel)
        self._channels[channel.id] = channel
        try:
            await asyncio.shield(shared.begun)
            if before:
                # It may be over, and nobody was told yet.
                await self._answered(stream, self._studio.renew(stream))
        except BaseException as error:
            self._channels.pop(channel.id, None)
            # What was refused never began; what somebody did not wait for may begin yet.
            if self._is_last(channel) and not isinstance(error, Problem):
                self._studio.remove(stream, DELETED)
            raise
        return channel

    async def _leave(self, channel: Channel, reason: str) -> None:
        """End a channel, and its stream with the last of them."""
        channel.end(reason)
        self._alive()
        if self._is_last(channel):
            await self.leave(channel.stream, reason)

    def _is_last(self, channel: Channel) -> bool:
        """Take a channel off its stream; whether it was the last one, so that nobody may join it any more."""
        audience = channel.stream.audience
        if channel not in audience:
            return False
        audience.remove(channel)
        if not audience:
            self._shared = {key: its for key, its in self._shared.items() if its.stream is not channel.stream}
        return not audience

    async def screen(self, between: float) -> Stream:
        """A stream of the whole screen for the service itself, in no list; raises `Problem` where there is none.

        Its frames have at least so many seconds between them.
        """
        stream = self._stream_of({"kind": "screen"}, ScreenScene(None), between)
        try:
            await self._answered(stream, self._studio.add(stream))
        except asyncio.CancelledError:
            self._studio.remove(stream, DELETED)
            raise
        return stream

    async def leave(self, stream: Stream, reason: str) -> None:
        """End a stream of the service itself."""
        stream.end(reason)
        await asyncio.wrap_future(self._studio.remove(stream, reason))

    def _stream_of(self, about: answers.Shown, scene: Scene, between: float = 0.0) -> Stream:
        loop = asyncio.get_running_loop()
        return Stream(about, scene, self._budget, self._packing, loop, between)

    async def _answered(self, stream: Stream, asked: "Future[None]") -> None:
        """Wait for the studio; raises `Problem` where there is nothing to look at."""
        try:
            # The studio answers in any case: who does not wait any more must not take the answer away.
            await asyncio.shield(asyncio.wrap_future(asked))
        except (Gone, ScreenGone, *REFUSED) as error:
            if isinstance(error, Gone) and "window" in stream.about:
                reason, remedy = "is no window any more", "take an id of GET /v1/windows"
                raise Problem(HTTPStatus.NOT_FOUND, "window", stream.about["window"], reason, remedy) from error
            raise gone(self._display) from error

    async def _make_room(self) -> None:
        """The channel that nobody looks at for the longest makes room for a new one."""
        alive = self._alive()
        if len(alive) < MOST_STREAMS:
            return
        unwatched = [channel for channel in alive.values() if not channel.viewers]
        if not unwatched:
            reason, remedy = "streams are there, and somebody looks at each", "end one of them: DELETE /v1/streams/ID"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "streams", len(alive), reason, remedy)
        oldest = min(unwatched, key=lambda channel: channel.watched)
        await self._leave(oldest, "it made room for a new stream, as nobody looked at it")

    async def _delete(self, request: Request) -> Answered[Done]:
        await self._leave(self._channel(request), DELETED)
        return Answered({"ok": True})

    async def _look(self, socket: WebSocket) -> None:
        try:
            channel = self._channel(socket)
            viewers = sum(other.viewers for other in self._channels.values())
            if viewers >= MOST_VIEWERS:
                reason = "viewers look at streams already"
                raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "viewers", viewers, reason, "wait until one of them leaves")
        except Problem as problem:
            await deny(socket, problem)
            return
        await Viewer(socket, channel).serve()


def _described(request: Request, channel: Channel) -> answers.Stream:
    """The channel as it stands in answers, with its link for people where the gateway says what their page is."""
    page = request.headers.get(PAGE_HEADER)
    found = channel.described()
    if page:
        found["link"] = f"{page}#stream={channel.id}"
    return found


def _asked(fields: Fields) -> tuple[answers.Shown, Scene]:
    """Read from a request what to stream: a window, a region, or the screen where neither is given."""
    given = [name for name in ("screen", "region", "window") if fields.given(name)]
    if len(given) > 1:
        raise wrong(given[1], None, f"stands beside {given[0]}", "give one of: screen, region, window")
    if given == ["window"]:
        window = window_id(fields.take("window"), "window")
        return {"kind": "window", "window": window}, WindowScene(window)
    if given == ["region"]:
        region = region_of(fields.take("region"), "region")
        return {"kind": "region", "region": region.as_list()}, ScreenScene(region)
    if given and not fields.flag("screen"):
        raise wrong("screen", False, "shows nothing", "give true, or a region or window")
    return {"kind": "screen"}, ScreenScene(None)
