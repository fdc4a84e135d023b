"""A desktop that sleeps is wanted by what is asked of it, and waited for: bounded, and not by who only follows it."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deskyard_mcp import __main__ as mcp_program
from deskyard_mcp.following import Line
from deskyard_mcp.settings import read
from deskyard_sdk import AsyncDesktop, Desktop, DesktopError, actions, waking
from deskyard_sdk.door import open_door
from deskyard_sdk.waking import HEARD_SECONDS, WAKE_SECONDS, Waking
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from tests.support.clock import Clock
from tests.unit.computer.serving import served

TREE = Path(__file__).resolve().parents[3]
TICKET = "t" * 43
SILENT = {"error": "desktop", "message": "the desktop does not answer", "remedy": "ask again"}


class Sleeper:
    """A gateway whose desktop answers after so many wishes; `says` is what its host makes of them."""

    def __init__(self) -> None:
        self.sleeps, self.says, self.heard, self.status = 2, "starts", True, 200
        self.wishes = 0
        self.asked: list[tuple[str, bytes]] = []
        self.silent = dict(SILENT)

    def routes(self) -> list[Route | WebSocketRoute]:
        return [
            Route("/redeem", self.redeem, methods=["POST"]),
            Route("/d/desk/drive", self.drive, methods=["POST"]),
            WebSocketRoute("/d/desk/computer/v1/processes/7/attach", self.attach),
            Route("/d/desk/computer/{path:path}", self.ask, methods=["GET", "POST", "PUT"]),
        ]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    async def redeem(self, request: Request) -> Response:
        ends = time.time() + 3600
        facts = {"desktop": "desk", "path": "/d/desk/", "routes": ["computer"], "mode": "agent", "token": "the-token"}
        return JSONResponse({**facts, "scopes": ["see"], "expires": ends, "renew_before": ends})

    async def drive(self, request: Request) -> Response:
        assert (await request.json(), request.headers["authorization"]) == ({"action": "wake"}, "Bearer the-token")
        assert request.headers["origin"]
        self.wishes += 1
        return JSONResponse({"wanted": True, "heard": self.heard, "waking": self.says}, self.status)

    async def ask(self, request: Request) -> Response:
        self.asked.append((request.url.path.rpartition("/")[2], await request.body()))
        if self.wishes < self.sleeps:
            return JSONResponse(self.silent, 503)
        return JSONResponse({"path": "/a", "name": "a", "results": [{"ok": True}], "event": 7, "state": 5})

    async def attach(self, websocket: WebSocket) -> None:
        if self.wishes < self.sleeps:
            await websocket.send_denial_response(JSONResponse(SILENT, 503))
            return
        await websocket.accept()
        await websocket.send_text("here")
        await websocket.close()


@pytest.fixture
def sleeper() -> Sleeper:
    return Sleeper()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pauses before asking again."""
    monkeypatch.setattr(waking, "AGAIN_SECONDS", 0.0)


@pytest.fixture
def url(sleeper: Sleeper) -> Iterator[str]:
    with served([sleeper]) as url:
        yield f"{url}/#{TICKET}"


def within_asyncio(url: str, work: Callable[[AsyncDesktop], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        async with await AsyncDesktop.connect(url, **options) as desktop:
            return await work(desktop)

    return asyncio.run(run())


def test_what_is_asked_wakes_it_and_is_answered_when_it_runs(sleeper: Sleeper, url: str) -> None:
    with Desktop.connect(url) as desktop:
        assert desktop.screen().state == 5
        assert (sleeper.wishes, len(sleeper.asked)) == (2, 3)
        sleeper.wishes = 0
        assert desktop.act(actions.click(1, 2)).event == 7
        assert {body for name, body in sleeper.asked if name == "act"} == {sleeper.asked[-1][1]}
    sleeper.wishes = 0
    assert within_asyncio(url, lambda desktop: desktop.screen()).state == 5


def test_upload_is_sent_anew_whole(sleeper: Sleeper, url: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"all of it")
    with Desktop.connect(url) as desktop, contextlib.suppress(KeyError):
        desktop.files.upload(tmp_path / "a", "a")
    assert sleeper.asked == [("content", b"all of it")] * 3


def test_websocket_is_opened_when_it_runs(sleeper: Sleeper, url: str) -> None:
    async def work() -> str | bytes:
        door = await open_door(url, None, wake_within=30)
        async with await door.socket("/v1/processes/7/attach") as socket:
            found = await socket.recv()
        await door.close()
        return found

    assert asyncio.run(work()) == "here"
    assert sleeper.wishes == 2


def test_with_zero_seconds_it_is_refused_at_once_and_not_wanted(sleeper: Sleeper, url: str) -> None:
    with Desktop.connect(url, wake_within=0) as desktop, pytest.raises(DesktopError, match="ask again") as refused:
        desktop.screen()
    assert (refused.value.status, refused.value.field, sleeper.wishes, len(sleeper.asked)) == (503, "desktop", 0, 1)


def test_door_that_passes_answers_on_waits_for_nothing_unless_told(sleeper: Sleeper, url: str) -> None:
    async def work() -> tuple[int, bytes]:
        door = await open_door(url, None)
        async with door.passing("POST", "/process.Process/Start", content=b"{}") as answer:
            found = answer.status_code, await answer.aread()
        await door.close()
        return found

    status, body = asyncio.run(work())
    assert (status, json.loads(body), sleeper.wishes) == (503, SILENT, 0)


@pytest.mark.parametrize("status", [400, 401, 403, 423])
def test_who_may_not_wake_it_or_whose_gateway_is_of_before_is_refused_as_before(
    sleeper: Sleeper, url: str, status: int
) -> None:
    sleeper.status = status
    with Desktop.connect(url) as desktop, pytest.raises(DesktopError, match="ask again"):
        desktop.screen()
    assert (sleeper.wishes, len(sleeper.asked)) == (1, 1)


def test_gateway_that_is_updated_is_no_desktop_that_sleeps(sleeper: Sleeper, url: str) -> None:
    sleeper.silent["error"] = "service"
    with Desktop.connect(url) as desktop, pytest.raises(DesktopError) as refused:
        desktop.screen()
    assert (refused.value.field, sleeper.wishes) == ("service", 0)


def test_what_did_not_start_is_said_at_once(sleeper: Sleeper, url: str) -> None:
    sleeper.says = "failed"
    with Desktop.connect(url) as desktop, pytest.raises(DesktopError, match="it did not start") as refused:
        desktop.screen()
    assert (sleeper.wishes, "workspace.status" in refused.value.remedy) == (1, True)


@pytest.mark.parametrize(("chosen", "wishes"), [({}, 2), ({"DESKYARD_MCP_WAKE_WITHIN": "0"}, 0)])
def test_call_by_mcp_waits_for_it_as_long_as_its_server_was_told(
    sleeper: Sleeper, url: str, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str], wishes: int
) -> None:
    answered: list[bool] = []

    class Server:
        def __init__(self, desktop: AsyncDesktop, ask: object) -> None:
            self.desktop = desktop

        async def run_stdio_async(self) -> None:
            """A client calls a tool once, and leaves."""
            with contextlib.suppress(DesktopError):
                answered.append((await self.desktop.screen()).state == 5)

    monkeypatch.setattr(mcp_program, "DesktopServer", Server)
    asyncio.run(mcp_program.serve(read({"DESKYARD_LINK": url, **chosen}, http=False), None))
    assert (answered, sleeper.wishes) == ([True] * bool(wishes), wishes)


def test_call_by_mcp_is_over_before_its_client_gives_it_up() -> None:
    # Their packages do so after a minute.
    settings = read({"DESKYARD_LINK": "x"}, http=False)
    assert 0 < settings.wake_within < 60
    assert read({"DESKYARD_LINK": "x", "DESKYARD_MCP_WAKE_WITHIN": "120"}, http=False).wake_within == 120


def test_line_that_follows_it_wakes_nothing_and_whoever_began_it_does(sleeper: Sleeper, url: str) -> None:
    class Source:
        over = False

        def __init__(self, desktop: AsyncDesktop) -> None:
            self.desktop = desktop
            self.refused = asyncio.Event()

        async def begin(self) -> None:
            await self.desktop.screen()

        async def changes(self) -> AsyncIterator[list[str]]:
            sleeper.wishes = 0
            try:
                await self.desktop.screen()
            except DesktopError:
                self.refused.set()
                raise
            yield []

    async def work(desktop: AsyncDesktop) -> None:
        async def publish(_: str) -> None:
            """Nobody listens."""

        source = Source(desktop)
        line = Line(desktop, source, publish, lambda: None)  # type: ignore[arg-type]
        await line.begin()
        assert sleeper.wishes == 2
        async with asyncio.timeout(30):
            await source.refused.wait()
        await line.close()

    within_asyncio(url, work)
    assert sleeper.wishes == 0


class Wait:
    """The wait of a request, by a clock that moves with each wish."""

    def __init__(self, **facts: Any) -> None:
        self.clock, self.facts, self.wishes = Clock(), facts, 0

    async def wish(self) -> httpx.Response:
        self.wishes += 1
        self.clock.now += 10
        return httpx.Response(200, json=self.facts)

    def over(self, within: float = WAKE_SECONDS) -> tuple[float, DesktopError]:
        """After how many seconds it is given up, and with which error."""

        async def wait() -> None:
            waits = Waking(self.wish, within, self.clock)
            while await waits.asks_again(503, b'{"error": "desktop"}'):
                pass

        begun = self.clock.now
        with pytest.raises(DesktopError) as refused:
            asyncio.run(wait())
        return self.clock.now - begun, refused.value


@pytest.mark.parametrize(
    ("facts", "seconds", "why"),
    [
        ({"heard": True, "waking": None}, HEARD_SECONDS, "nobody starts it"),
        ({"heard": True, "waking": "starts"}, WAKE_SECONDS, "being started"),
        ({"heard": True, "waking": "no-room"}, WAKE_SECONDS, "no room"),
        ({"heard": False, "waking": None}, WAKE_SECONDS, "its host has not started it yet"),
    ],
)
def test_wait_is_bounded_and_shorter_where_the_host_has_heard_and_starts_nothing(
    facts: dict[str, Any], seconds: float, why: str
) -> None:
    waited, refused = Wait(**facts).over()
    assert seconds <= waited <= seconds + 20
    assert why in refused.reason
    assert refused.remedy.startswith("ask again") is (seconds == WAKE_SECONDS)


@pytest.mark.parametrize(("status", "word", "asks"), [(409, "off", False), (423, "stopped", True), (403, "mode", True)])
def test_wish_that_is_refused_says_at_once_that_it_was_stopped_and_else_lets_the_answer_stand(
    status: int, word: str, asks: bool
) -> None:
    said = {"error": word, "reason": "was stopped after it had been started", "remedy": "ask"}

    async def wish() -> httpx.Response:
        return httpx.Response(status, json=said)

    waits = Waking(wish, WAKE_SECONDS, Clock())
    if asks:
        assert asyncio.run(waits.asks_again(503, b'{"error": "desktop"}')) is False
        return
    with pytest.raises(DesktopError, match="it was stopped after it had been started") as refused:
        asyncio.run(waits.asks_again(503, b'{"error": "desktop"}'))
    assert (refused.value.field, refused.value.remedy, refused.value.status) == ("desktop", "ask", 503)


def test_wish_that_is_read_just_after_a_timer_looked_is_waited_for_until_its_next_run() -> None:
    timer = (TREE / "examples/idle/deskyard-idle@.timer").read_text()
    pace = re.search(r"^OnUnitInactiveSec=(\d+)min$", timer, re.MULTILINE)
    assert pace is not None
    # With half a minute for the run itself.
    assert 60 * int(pace[1]) + 30 <= HEARD_SECONDS < WAKE_SECONDS


def test_wait_that_is_shorter_than_the_host_may_take_does_not_say_that_nobody_starts_it() -> None:
    waited, refused = Wait(heard=True, waking=None).over(within=50)
    assert 50 <= waited <= 70
    assert "its host has not started it yet" in refused.reason and refused.remedy.startswith("ask again")
