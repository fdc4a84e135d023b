"""Streams: what a real viewer decodes is what the screen shows, and each viewer has its own pace."""

import asyncio
import io
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import xcffib.xproto as xproto
from deskyard_sdk import AsyncDesktop, Desktop, DesktopError, Stream
from PIL import Image, ImageChops, ImageStat
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from deskyard.computer.display.x_server import XConnection
from deskyard.computer.streaming.part import MOST_STREAMS
from deskyard.computer.streaming.studio import Studio
from deskyard.wire.computer import PAGE_HEADER, SEE
from tests.computer.desktop import HEIGHT, WIDTH, Recorder, Service
from tests.computer.rfb_witness import witness

ASK, ASK_ALL = (struct.pack(">BBHHHH", 3, more, 0, 0, WIDTH, HEIGHT) for more in (1, 0))


def made(service: Service, **what: Any) -> dict[str, Any]:
    """A stream of this."""
    answer = service.client.post("/v1/streams", json=what)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def url(service: Service, stream: dict[str, Any]) -> str:
    return f"ws://127.0.0.1:{service.port}{stream['path']}"


@pytest.fixture(autouse=True)
def none_is_left(service: Service) -> Iterator[None]:
    yield
    for stream in service.client.get("/v1/streams").json()["streams"]:
        service.client.delete(stream["path"])


def screen(service: Service, query: str = "") -> Image.Image:
    """What the eyes see at the same time."""
    service.wait("screen.settled")
    return Image.open(io.BytesIO(service.client.get(f"/v1/screen?{query}").content)).convert("RGB")


def same(first: Image.Image, second: Image.Image) -> bool:
    return first.size == second.size and ImageChops.difference(first, second).getbbox() is None


def paint(recorder: Recorder, colour: int, place: tuple[int, int, int, int] = (0, 0, 400, 300)) -> None:
    """Fill a part of the window."""
    c = recorder.c
    context = c.x.generate_id()
    c.core.CreateGC(context, recorder.id, xproto.GC.Foreground, [colour])
    c.core.PolyFillRectangle(recorder.id, context, 1, [xproto.RECTANGLE.synthetic(*place)])
    c.core.FreeGC(context)
    c.settle()


def speckle(recorder: Recorder) -> None:
    """Something that is neither of one colour nor made of large parts."""
    for at in range(0, 240, 7):
        paint(recorder, at * 70_001 & 0xFFFFFF, (at, at, 91, 13))


@pytest.mark.parametrize("encodings", ["raw", "tight", "zrle"])
def test_real_viewer_shows_exactly_the_screen(service: Service, recorder: Recorder, encodings: str) -> None:
    speckle(recorder)
    service.did({"type": "move", "x": 150, "y": 150, "space": f"window:{recorder.id}"})
    expected = screen(service)
    with witness(url(service, made(service)), encodings) as viewer:
        viewer.until(lambda shown: same(shown, expected), "the screen")
        # ... and what changes after that, in two steps, by the state that the connection has.
        for colour in (0x3366CC, 0xCC9933):
            paint(recorder, colour, (10, 20, 130, 140))
            expected = screen(service)
            viewer.until(lambda shown, expected=expected: same(shown, expected), "the change")  # type: ignore[misc]


def test_real_viewer_shows_nearly_the_screen_by_jpeg(service: Service, recorder: Recorder) -> None:
    speckle(recorder)
    expected = screen(service)
    with witness(url(service, made(service, screen=True)), "tight", quality=9) as viewer:

        def suits(shown: Image.Image) -> bool:
            return shown.size == expected.size and max(ImageStat.Stat(ImageChops.difference(shown, expected)).mean) < 2

        assert not same(viewer.until(suits, "about the screen"), expected), "nothing was sent as JPEG"


def test_region_shows_its_part_of_the_screen(service: Service, recorder: Recorder) -> None:
    speckle(recorder)
    expected = screen(service, "region=90,110,333,217")
    stream = made(service, region=[90, 110, 333, 217])
    assert (stream["kind"], stream["size"]) == ("region", [333, 217])
    with witness(url(service, stream)) as viewer:
        viewer.until(lambda shown: same(shown, expected), "the region")


def test_window_is_shown_also_where_another_lies_above_it(service: Service, recorder: Recorder) -> None:
    speckle(recorder)
    service.did({"type": "move", "x": 1000, "y": 700})
    expected = screen(service, f"window={recorder.id}&cursor=false")
    stream = made(service, window=recorder.id)
    before = service.last()
    above = Recorder(service.part._display)
    service.wait("window.appeared", match={"id": above.id}, after=before)
    try:
        with witness(url(service, stream)) as viewer:
            viewer.until(lambda shown: same(shown, expected), "the window")
            assert not same(screen(service, f"window={recorder.id}&cursor=false"), expected), "nothing lay above it"
            paint(recorder, 0x118811)
            viewer.until(lambda shown: shown.getpixel((200, 150)) == (0x11, 0x88, 0x11), "what is drawn below")
    finally:
        above.close()


def popup(recorder: Recorder, x: int, y: int) -> int:
    """A menu of the window's program, partly outside of it."""
    c = recorder.c
    menu = int(c.x.generate_id())
    c.core.CreateWindow(
        0, menu, c.root, x, y, 120, 90, 0, 1, 0, xproto.CW.BackPixel | xproto.CW.OverrideRedirect, [0xAA2200, 1]
    )
    c.core.ChangeProperty(0, menu, c.atom("WM_TRANSIENT_FOR"), xproto.Atom.WINDOW, 32, 1, [recorder.id])
    c.core.MapWindow(menu)
    c.settle()
    return menu


class Plain:
    """A viewer that says just what a test wants."""

    def __init__(self, service: Service, stream: dict[str, Any], encodings: tuple[int, ...] = (0,)) -> None:
        self.line: ClientConnection = connect(url(service, stream), max_size=None, compression=None).__enter__()
        self._left = b""
        assert self.take(12) == b"RFB 003.008\n"
        self.line.send(b"RFB 003.008\n")
        assert self.take(2) == b"\x01\x01"
        self.line.send(b"\x01")
        assert self.take(4) == b"\0\0\0\0"
        self.line.send(b"\x01")
        width, height, length = struct.unpack(">HH16xI", self.take(24))
        self.picture, self.name = Image.new("RGB", (width, height)), self.take(length).decode()
        self.line.send(struct.pack(f">BxH{len(encodings)}i", 2, len(encodings), *encodings))

    def take(self, size: int) -> bytes:
        while len(self._left) < size:
            message = self.line.recv(60)
            assert isinstance(message, bytes)
            self._left += message
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def update(self) -> list[tuple[int, int, int, int]]:
        """The places of the next update, of raw rectangles."""
        (count,) = struct.unpack(">xxH", self.take(4))
        places = []
        for _ in range(count):
            x, y, width, height, encoding = struct.unpack(">HHHHi", self.take(12))
            places.append((x, y, width, height))
            if encoding == 0:
                self.pixels = self.take(width * height * 4)
                self.picture.paste(Image.frombytes("RGB", (width, height), self.pixels, "raw", "BGRX"), (x, y))
            else:
                self.picture = Image.new("RGB", (width, height))
        return places

    def until(self, size: tuple[int, int], colours: dict[tuple[int, int], tuple[int, int, int]]) -> None:
        """Take updates until the picture has this size and these colours."""
        while self.picture.size != size or any(self.picture.getpixel(at) != colour for at, colour in colours.items()):
            self.line.send(ASK)
            self.update()


def test_popup_of_a_window_is_shown_whole(service: Service, recorder: Recorder) -> None:
    service.did({"type": "move", "x": 1000, "y": 700})
    x, y, width, height = next(entry["geometry"] for entry in service.windows() if entry["id"] == recorder.id)
    viewer = Plain(service, made(service, window=recorder.id), (0, -223))
    viewer.until((width, height), {(5, 5): (255, 255, 255)})
    menu = popup(recorder, x - 20, y + height - 40)
    red = (0xAA, 0x22, 0)
    viewer.until((width + 20, height + 50), {(5, height - 35): red, (119, height + 49): red, (200, 5): (255, 255, 255)})
    recorder.c.core.DestroyWindow(menu)
    recorder.c.settle()
    viewer.until((width, height), {(5, height - 5): (255, 255, 255)})
    viewer.line.close()


def test_stream_ends_with_its_window_and_says_so(service: Service) -> None:
    before = service.last()
    window = Recorder(service.part._display)
    service.wait("window.appeared", match={"id": window.id}, after=before)
    stream = made(service, window=window.id)
    viewer = Plain(service, stream)
    viewer.line.send(ASK)
    viewer.update()
    window.close()
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            viewer.line.send(ASK)
            viewer.update()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4410, "the window is closed")
    answer = service.client.get(stream["path"])
    assert (answer.status_code, answer.json()["reason"]) == (410, "the window is closed")
    assert service.client.get("/v1/streams").json()["streams"] == []


def test_deleted_stream_cuts_its_viewers(service: Service) -> None:
    stream = made(service)
    viewer = Plain(service, stream)
    assert service.client.get(stream["path"]).json()["viewers"] == 1
    assert service.client.delete(stream["path"]).status_code == 200
    with pytest.raises(ConnectionClosed) as closed:
        viewer.line.recv(60)
    assert closed.value.rcvd is not None and closed.value.rcvd.reason == "the stream was deleted"


def test_viewer_that_takes_nothing_stalls_nobody_and_gets_the_newest(service: Service, recorder: Recorder) -> None:
    stream = made(service, window=recorder.id)
    slow, quick = Plain(service, stream), Plain(service, stream)
    for viewer in (slow, quick):
        viewer.line.send(ASK)
    assert len(slow.update()) == len(quick.update()) == 1
    for colour in range(1, 13):
        paint(recorder, colour)
        quick.line.send(ASK)
        while quick.update() and quick.pixels[:4] != bytes([colour, 0, 0, 0]):
            quick.line.send(ASK)
    slow.line.send(ASK)
    assert slow.update() and slow.pixels[:4] == bytes([12, 0, 0, 0])


def test_what_does_not_change_is_not_sent(service: Service, recorder: Recorder) -> None:
    service.wait("screen.settled")
    viewer = Plain(service, made(service, window=recorder.id))
    viewer.line.send(ASK)
    assert viewer.update() == [(0, 0, 400, 300)]
    viewer.line.send(ASK)
    paint(recorder, 0xFFFFFF)  # drawn, and as it was
    paint(recorder, 0x224466, (130, 70, 3, 3))
    assert viewer.update() == [(128, 64, 64, 64)]
    viewer.line.send(ASK)
    with pytest.raises(TimeoutError):
        viewer.line.recv(0.3)


def test_input_of_a_viewer_goes_nowhere(service: Service, recorder: Recorder) -> None:
    viewer = Plain(service, made(service, window=recorder.id))
    viewer.line.send(struct.pack(">BBxxI", 4, 1, ord("k")) + struct.pack(">BBHH", 5, 1, 10, 10))
    viewer.line.send(struct.pack(">Bxxxi", 6, 5) + b"paste" + ASK)
    assert viewer.update()
    service.did({"type": "type", "text": "a"})
    recorder.until(lambda: "a" in recorder.text, "the agent's own key")
    assert recorder.text == "a" and recorder.buttons() == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\xff", "message 255"),
        (struct.pack(">BxxxBBBBHHHBBBxxx", 0, 16, 16, 0, 1, 31, 63, 31, 11, 5, 0), "32 bits"),
        (struct.pack(">BxH", 2, 5000), "encodings"),
        ("text", "binary"),
    ],
)
def test_viewer_that_is_not_understood_hears_why(service: Service, said: bytes | str, reason: str) -> None:
    viewer = Plain(service, made(service))
    viewer.line.send(said)
    with pytest.raises(ConnectionClosed) as closed:
        viewer.line.recv(60)
    assert closed.value.rcvd is not None and reason in closed.value.rcvd.reason


def test_pixels_come_in_the_order_that_was_asked_for(service: Service, recorder: Recorder) -> None:
    paint(recorder, 0x112233)
    viewer = Plain(service, made(service, window=recorder.id))
    for big, shifts, colours in ((0, (0, 8, 16), slice(3)), (1, (16, 8, 0), slice(1, 4))):
        viewer.line.send(struct.pack(">BxxxBBBBHHHBBBxxx", 0, 32, 24, big, 1, 255, 255, 255, *shifts) + ASK_ALL)
        viewer.update()
        assert viewer.pixels[:4][colours] == b"\x11\x22\x33"


def test_stream_begins_while_the_thread_of_the_last_one_ends(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint(recorder, 0x335577)
    first = made(service, window=recorder.id)
    asked, close, calls = threading.Event(), XConnection.close, []

    def call(studio: Studio, function: Any) -> Any:
        calls.append(future := original(studio, function))
        if len(calls) == 2:  # after the end of the first one
            asked.set()
        return future

    def closed_late(c: XConnection) -> None:
        if threading.current_thread().name == "studio":
            assert asked.wait(60)
        close(c)

    original = Studio._call
    monkeypatch.setattr(Studio, "_call", call)
    monkeypatch.setattr(XConnection, "close", closed_late)
    assert service.client.delete(first["path"]).status_code == 200
    viewer = Plain(service, made(service, window=recorder.id))
    viewer.line.send(ASK_ALL)
    assert viewer.update() == [(0, 0, 400, 300)] and viewer.pixels[:3] == b"\x77\x55\x33"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the studio begins to take."""
    found, add = list[object](), Studio.add

    def adding(studio: Studio, stream: Any) -> Any:
        found.append(stream)
        return add(studio, stream)

    monkeypatch.setattr(Studio, "add", adding)
    return found


def test_streams_of_the_same_are_taken_and_packed_once(
    service: Service, recorder: Recorder, taken: list[object]
) -> None:
    first, second = (made(service, window=recorder.id) for _ in range(2))
    viewers = [Plain(service, stream) for stream in (first, second)]
    assert first["id"] != second["id"] and len(taken) == 1
    viewers[0].line.send(ASK_ALL)
    viewers[0].update()
    assert service.client.delete(first["path"]).status_code == 200
    with pytest.raises(ConnectionClosed):
        viewers[0].line.recv(60)
    # The other goes on, also with whoever comes later.
    paint(recorder, 0x112233)
    viewers[1].line.send(ASK_ALL)
    while viewers[1].update() and viewers[1].pixels[:3] != b"\x33\x22\x11":
        viewers[1].line.send(ASK_ALL)
    assert service.client.get(second["path"]).json()["viewers"] == 1
    assert service.client.delete(second["path"]).status_code == 200
    with pytest.raises(ConnectionClosed):
        viewers[1].line.recv(60)
    made(service, window=recorder.id)
    assert len(taken) == 2


def test_stream_that_is_joined_is_looked_at_anew(service: Service, recorder: Recorder) -> None:
    before = service.last()
    window = Recorder(service.part._display)
    service.wait("window.appeared", match={"id": window.id}, after=before)
    paint(window, 0x112233)
    first = made(service, window=window.id)
    paint(window, 0x445566)
    second = made(service, window=window.id)
    for stream in (first, second):
        viewer = Plain(service, stream)
        viewer.line.send(ASK_ALL)
        viewer.update()
        assert viewer.pixels[:3] == b"\x66\x55\x44", "the first picture is of now, not of when somebody last looked"
        viewer.line.close()
    window.close()
    answer = service.client.post("/v1/streams", json={"window": window.id})
    assert (answer.status_code, answer.json()["error"]) == (404, "window")


def test_streams_of_something_else_are_others(service: Service, recorder: Recorder, taken: list[object]) -> None:
    for what in ({}, {"region": [0, 0, 64, 64]}, {"region": [0, 0, 64, 65]}, {"window": recorder.id}):
        made(service, **what)
    assert len(taken) == 4


def test_a_window_that_closes_ends_all_its_streams(service: Service) -> None:
    before = service.last()
    window = Recorder(service.part._display)
    service.wait("window.appeared", match={"id": window.id}, after=before)
    streams = [made(service, window=window.id) for _ in range(2)]
    viewers = [Plain(service, stream) for stream in streams]
    window.close()
    for stream, viewer in zip(streams, viewers, strict=True):
        with pytest.raises(ConnectionClosed) as closed:
            viewer.line.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.reason == "the window is closed"
        assert service.client.get(stream["path"]).status_code == 410


def test_stream_that_nobody_looks_at_makes_room(service: Service) -> None:
    streams = [made(service, region=[0, 0, 16, 16 + number]) for number in range(MOST_STREAMS)]
    viewers = [Plain(service, stream) for stream in streams[1:]]
    last = made(service)
    assert service.client.get(streams[0]["path"]).status_code == 410
    viewers.append(Plain(service, last))
    answer = service.client.post("/v1/streams", json={})
    assert (answer.status_code, answer.json()["error"]) == (429, "streams")
    for viewer in viewers:
        viewer.line.close()


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"window": 99}, "window"), ({"window": 0}, "window"), ({"region": [0, 0, 5000, 5]}, "region"),
        ({"region": [0, 0, 0, 5]}, "region"), ({"screen": False}, "screen"), ({"window": 5, "screen": True}, "window"),
        ({"colour": 1}, "colour"),
    ],
)  # fmt: skip
def test_wrong_stream_is_named(service: Service, asked: dict[str, Any], field: str) -> None:
    answer = service.client.post("/v1/streams", json=asked)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"] == field and answer.json()["remedy"]


def test_link_for_people_is_named_where_the_gateway_says_what_their_page_is(service: Service) -> None:
    page = {PAGE_HEADER: "https://gate.test/d/dev/"}
    through = {**page, "x-deskyard-scopes": SEE, "x-deskyard-session": "s" * 24}
    stream = service.client.post("/v1/streams", json={}, headers=through).json()
    assert stream["link"] == f"https://gate.test/d/dev/#stream={stream['id']}"
    assert Stream.of(stream).link == stream["link"]
    assert service.client.get(stream["path"], headers=through).json() == stream
    assert service.client.get("/v1/streams", headers=through).json()["streams"] == [stream]
    inside = service.client.get(stream["path"]).json()
    assert "link" not in inside and Stream.of(inside).link is None


def test_scope_see_is_what_it_takes(service: Service) -> None:
    stream = made(service)
    blind = {"x-deskyard-scopes": "act,files,shell", "x-deskyard-session": "s" * 24}
    for method, path in (("GET", "/v1/streams"), ("POST", "/v1/streams"), ("DELETE", stream["path"])):
        assert service.client.request(method, path, headers=blind).status_code == 403
    with pytest.raises(InvalidStatus) as refused:
        connect(url(service, stream), additional_headers=blind)
    assert refused.value.response.status_code == 403


def test_sdk_makes_lists_opens_and_ends_streams(service: Service, recorder: Recorder) -> None:
    with Desktop.connect(service.url) as desktop:
        stream = desktop.streams.create(window=recorder.id)
        assert (stream.kind, stream.window, stream.size) == ("window", str(recorder.id), (400, 300))
        assert desktop.streams.list() == [stream] and desktop.streams.get(stream.id) == stream
        desktop.streams.delete(stream)
        with pytest.raises(DesktopError) as over:
            desktop.streams.get(stream.id)
        assert (over.value.status, over.value.reason) == (410, "the stream was deleted")

    async def looked() -> str | bytes:
        async with await AsyncDesktop.connect(service.url) as desktop:
            stream = await desktop.streams.create(region=(0, 0, 64, 64))
            async with await desktop.streams.open(stream) as line:
                return await line.recv()

    assert asyncio.run(looked()) == b"RFB 003.008\n"
