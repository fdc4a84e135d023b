"""The SDK on a desktop's service, from inside and through a gateway; each call in both of its forms."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from deskyard_mcp.answers import acted
from deskyard_sdk import AsyncDesktop, Desktop, DesktopError, Picture, PrivacyError, StoppedError, actions
from deskyard_sdk.door import KEEPALIVE, open_door
from deskyard_sdk.door import Door as Way
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from deskyard.computer.work.part import Work
from tests.unit.computer.serving import home_of, served

TICKET = "t" * 43
# What is typed where the gateway has shut the desktop, and why it has.
SHUT = {"in private": "privacy", "where it is stopped": "stopped"}
GONE = {"error": "window", "value": "7", "reason": "is no window any more", "remedy": "take another one"}


class Door:
    """The gateway's door as a program sees it: a ticket opens once, its token is renewed, behind is the service."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.tokens = 0
        self.asked: list[dict[str, Any]] = []
        self.seconds = 3600.0
        self.scopes = ["see", "act", "files", "shell"]
        self.renewed = threading.Event()
        self.over = False
        self.passing: list[Response] = []

    def routes(self) -> list[Mount | Route]:
        """The door's paths, and a screen that answers what the SDK should send and read."""
        service = [
            *self._work.routes(),
            Route("/v1/act", self.act, methods=["POST"]),
            Route("/v1/wait", self.wait, methods=["POST"]),
            Route("/v1/screen", self.screen, methods=["GET"]),
        ]
        return [
            Route("/redeem", self.redeem, methods=["POST"]),
            Route("/d/desk/renew", self.renew, methods=["POST"]),
            Mount("/d/desk/computer", routes=service),
            Mount("/bare", routes=[*self._work.routes(), Route("/v1/drive", self.drive)]),
        ]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._work.running():
            yield

    async def redeem(self, request: Request) -> Response:
        if (await request.json()) != {"ticket": TICKET} or self.tokens:
            return JSONResponse({"error": "ticket", "message": "is spent", "remedy": "ask for a new link"}, 401)
        return self._facts()

    async def renew(self, request: Request) -> Response:
        if self.over:
            return JSONResponse({"error": "session", "message": "is over", "remedy": "ask for a new link"}, 401)
        if self.passing:
            return self.passing.pop()
        assert request.headers["authorization"] == f"Bearer token-{self.tokens}"
        answer = self._facts()
        if self.tokens > 3:
            # The one before has arrived: it was asked for with the token of then.
            self.renewed.set()
        return answer

    def _facts(self) -> Response:
        self.tokens += 1
        ends = int(time.time() + self.seconds)
        facts = {"desktop": "desk", "path": "/d/desk/", "routes": ["computer"], "mode": "agent", "expires": ends + 9999}
        return JSONResponse({**facts, "scopes": self.scopes, "renew_before": ends, "token": f"token-{self.tokens}"})

    async def act(self, request: Request) -> Response:
        self.asked.append({**await request.json(), "bearer": request.headers.get("authorization")})
        if self.asked[-1]["actions"][0]["type"] == "type":
            if reason := SHUT.get(self.asked[-1]["actions"][0]["text"]):
                words = {"error": reason, "message": f"a person wants it: {reason}", "remedy": "wait for privacy.off"}
                return JSONResponse(words, 423)
            body = {"error": "drive", "value": "", "reason": "a person drives", "remedy": "wait for person.left"}
            return JSONResponse({**body, "results": [], "ok": False}, 409)
        if self.asked[-1].get("return", {}).get("window"):
            # Done, and closed by what was done.
            done = {"results": [{"action": 0, "type": "key", "ok": True}], "event": 3}
            return JSONResponse({**done, "ok": False, "picture": None, "unseen": GONE})
        picture = {
            "state": 4,
            "data": "cG5n",
            "format": "png",
            "space": "shot:s1",
            "size": [8, 6],
            "region": [0, 0, 16, 12],
        }
        return JSONResponse({"results": [{"ok": True}], "event": 7, "picture": picture, "new": "field"})

    async def wait(self, request: Request) -> Response:
        self.asked.append(await request.json())
        return JSONResponse({"seq": 9, "event": "window.appeared", "title": "Writer", "untrusted": ["title"]})

    async def drive(self, request: Request) -> Response:
        return JSONResponse({"driver": "agent", "event": 7})

    async def screen(self, request: Request) -> Response:
        self.asked.append(dict(request.query_params))
        return JSONResponse({"state": 5, "changed": False})


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with home_of(tmp_path) as home:
        yield Door(Work(home))


@pytest.fixture
def url(door: Door) -> Iterator[str]:
    with served([door]) as url:
        yield url


@pytest.fixture
def desktop(url: str) -> Iterator[Desktop]:
    with Desktop.connect(f"{url}/bare") as desktop:
        yield desktop


def test_a_link_opens_once_and_its_token_goes_with_each_request(door: Door, url: str) -> None:
    with Desktop.connect(f"{url}/#{TICKET}") as desktop:
        assert desktop.facts["desktop"] == "desk"
        assert "token" not in desktop.facts
        assert desktop.run("echo hello").stdout == "hello\n"
        desktop.act(actions.click(0, 0))
        assert door.asked[-1]["bearer"] == "Bearer token-1"
    with pytest.raises(DesktopError, match="is spent") as refused:
        Desktop.connect(f"{url}/#{TICKET}")
    assert (refused.value.field, refused.value.status) == ("ticket", 401)


def test_a_session_is_renewed_before_its_end(door: Door, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deskyard_sdk.door.AGAIN_SECONDS", 0.1)
    door.seconds = 0.0
    with Desktop.connect(f"{url}/#{TICKET}") as desktop:
        assert door.renewed.wait(20)
        desktop.act(actions.move(1, 1))
    assert int(door.asked[-1]["bearer"].removeprefix("Bearer token-")) >= 3


def passing() -> list[Response]:
    """What a gateway answers for a minute: its service begins anew, its disk is full, or something is in between."""
    words = {"error": "service", "message": "does not answer", "remedy": "try again in a minute"}
    return [JSONResponse(words, 503), JSONResponse(words, 429), Response("<p>Sign in", 200), Response("[1]", 200)]


def test_a_session_is_renewed_when_the_gateway_could_not_for_a_while(
    door: Door, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deskyard_sdk.door.AGAIN_SECONDS", 0.1)
    door.seconds, door.passing = 0.0, passing()
    with Desktop.connect(f"{url}/#{TICKET}"):
        assert door.renewed.wait(20)
    assert door.passing == []


@contextlib.contextmanager
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_what_a_gateway_itself_answers_is_waited_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deskyard_sdk.door.GATEWAY_SECONDS", 0.2)
    with silent() as listening, pytest.raises(DesktopError, match="does not answer"):
        Desktop.connect(f"http://127.0.0.1:{listening.getsockname()[1]}/#{TICKET}")


def test_a_connection_looks_by_itself_whether_its_other_end_is_gone(url: str) -> None:
    async def options() -> list[int]:
        door = await open_door(f"{url}/bare", None)
        try:
            async with door.stream("GET", "/v1/processes") as answer:
                line = answer.extensions["network_stream"].get_extra_info("socket")
                return [line.getsockopt(level, name) for level, name, _ in KEEPALIVE]
        finally:
            await door.close()

    assert asyncio.run(options()) == [1, 30, 10, 6]


async def attached(url: str) -> None:
    door = await open_door(url, None)
    try:
        await (await door.socket("/v1/processes/none/attach")).close()
    finally:
        await door.close()


def test_a_websocket_goes_through_no_proxy_as_requests_do(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(DesktopError) as refused:
        asyncio.run(attached(f"{url}/bare"))
    assert refused.value.status >= 400, "the service itself has answered"


@pytest.mark.parametrize("said", [b"", b"220 mail\r\n\r\n"])
def test_a_websocket_to_who_speaks_no_http_is_refused_with_the_reason(said: bytes) -> None:
    def answer() -> None:
        line, _ = listening.accept()
        with line:
            line.recv(1 << 16)
            line.sendall(said)

    with silent() as listening:
        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(DesktopError, match="does not answer"):
            asyncio.run(attached(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        answering.join()


def test_a_kept_session_outlives_a_gateway_that_could_not_renew_it(door: Door, url: str, tmp_path: Path) -> None:
    file = tmp_path / "session"
    Desktop.connect(f"{url}/#{TICKET}", session=file).close()
    kept = file.read_bytes()
    for answer in passing():
        door.passing = [answer]
        with pytest.raises(DesktopError, match="does not answer"):
            Desktop.connect(f"{url}/#{TICKET}", session=file)
        assert file.read_bytes() == kept
    with Desktop.connect(f"{url}/#{TICKET}", session=file) as desktop:
        desktop.act(actions.move(1, 1))


def test_a_kept_session_is_gone_on_with_by_the_next_program_with_its_link(door: Door, url: str, tmp_path: Path) -> None:
    file = tmp_path / "session"
    for number in (1, 2, 3):
        with Desktop.connect(f"{url}/#{TICKET}", session=file) as desktop:
            desktop.act(actions.move(1, 1))
            assert door.asked[-1]["bearer"] == f"Bearer token-{number}"
        assert (file.stat().st_mode & 0o777, TICKET in file.read_text()) == (0o600, False)
    with pytest.raises(DesktopError, match="is spent"):
        Desktop.connect(f"{url}/#{TICKET[:-1]}u", session=file)
    # Over, or revoked: then the link counts, and it opened once.
    door.over = True
    with pytest.raises(DesktopError, match="is spent"):
        Desktop.connect(f"{url}/#{TICKET}", session=file)


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [("{}", 0o644, "read by others"), ("{}", 0o600, "no session"), ("[1", 0o600, "no session")],
)
def test_a_sessions_file_is_its_owners_alone(url: str, tmp_path: Path, content: str, mode: int, reason: str) -> None:
    file = tmp_path / "session"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(DesktopError, match=reason):
        Desktop.connect(f"{url}/#{TICKET}", session=file)
    with pytest.raises(DesktopError, match="written"):
        Desktop.connect(f"{url}/#{TICKET}", session=tmp_path / "none" / "session")
    Desktop.connect(f"{url}/#{TICKET}", session=tmp_path / "other").close()


@pytest.mark.parametrize(
    ("link", "field"), [("desk", "url"), ("ftp://x/", "url"), ("http://127.0.0.1:9/#x", "url"), ("https://x/#y", "ca")]
)
def test_a_wrong_link_is_named(link: str, field: str) -> None:
    with pytest.raises(DesktopError) as refused:
        Desktop.connect(link, ca="/no/such/file")
    assert refused.value.field == field
    assert "y" not in refused.value.value


def test_files_are_written_read_listed_and_removed(desktop: Desktop, tmp_path: Path) -> None:
    assert desktop.files.write("a/b.txt", "Grüße").size == 7
    assert desktop.files.read_text("a/b.txt") == "Grüße"
    assert desktop.files.read("a/b.txt", 0, 2) == b"Gr"
    (tmp_path / "here").write_bytes(b"x" * 1_000_000)
    assert desktop.files.upload(tmp_path / "here", "up", mode="600").mode == "0600"
    desktop.files.download("up", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"x" * 1_000_000
    assert [entry.name for entry in desktop.files.list()] == ["a", "up"]
    desktop.files.make_directory("c")
    desktop.files.move("a/b.txt", "c/b.txt")
    assert desktop.files.exists("c/b.txt") and not desktop.files.exists("a/b.txt")
    desktop.files.remove("c", recursive=True)
    with pytest.raises(DesktopError) as refused:
        desktop.files.stat("c")
    assert (refused.value.field, refused.value.status, refused.value.reason) == ("path", 404, "does not exist")


def test_changes_are_heard_as_they_happen(desktop: Desktop) -> None:
    changes = desktop.files.watch("~")
    assert next(changes).kind == "watching"
    desktop.files.write("new", "x")
    change = next(changes)
    assert (change.kind, change.path) == ("written", "new")
    changes.close()  # type: ignore[attr-defined]


def test_a_process_is_started_fed_followed_and_ended(desktop: Desktop) -> None:
    process = desktop.processes.start(["cat"], stdin=True, tag="mine")
    assert desktop.processes.get(process.id).pid == process.pid
    process.write("Hello", close=True)
    assert b"".join(piece.data for piece in process.output()) == b"Hello"
    assert (process.info.running, process.info.exit_code) == (False, 0)
    other = desktop.processes.start("exit 3")
    assert other.wait() == 3
    third = desktop.processes.start(["sleep", "600"])
    third.signal("TERM")
    assert third.wait() == -1
    assert {"mine"} <= {info.tag for info in desktop.processes.list()}


@pytest.mark.parametrize("longest", [240.0, 0.0])
def test_a_command_says_how_it_ended_however_long_it_may_take(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch, longest: float
) -> None:
    monkeypatch.setattr("deskyard_sdk.processes.LONGEST_ANSWER", longest)
    result = desktop.run("cat; echo $COLOUR; exit 2", stdin="in\n", environment={"COLOUR": "blue"})
    assert (result.stdout, result.exit_code, result.ok) == ("in\nblue\n", 2, False)
    killed = desktop.run("echo begun; echo bad >&2; exec sleep 600", timeout=2)
    assert (killed.timed_out, killed.signal, killed.ok) == (True, "SIGKILL", False)
    assert desktop.run(["true"], stdin="nobody reads this" * 99999).ok
    much = desktop.run("head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    assert (len(much.stdout) + much.lost_bytes, much.stdout[-4:], much.exit_code) == (3000004, "end\n", 0)
    assert much.lost_bytes > 0
    assert desktop.processes.list() == [], "it was told all of them"


def test_a_command_that_may_take_longer_than_a_gateway_waits_is_followed(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    stream = Way.stream

    def noted(door: Way, method: str, path: str, **what: Any) -> Any:
        asked.append(f"{method} {path}")
        return stream(door, method, path, **what)

    monkeypatch.setattr(Way, "stream", noted)
    assert desktop.run("echo done", timeout=900).stdout == "done\n"
    assert "POST /v1/processes" in asked and "POST /v1/processes/run" not in asked


def test_actions_whose_window_is_gone_are_done_and_say_why_there_is_no_picture(url: str) -> None:
    with Desktop.connect(f"{url}/#{TICKET}") as desktop:
        done = desktop.act(actions.key("alt+F4"), picture={"window": 7})
    assert (done.results[0]["ok"], done.picture, done.unseen) == (True, None, GONE)
    answer = acted(done)
    assert answer.structured_content == {"results": done.results, "event": 3, "picture": GONE} and not answer.is_error


def test_actions_waits_and_pictures_are_asked_for_and_read(door: Door, url: str) -> None:
    with Desktop.connect(f"{url}/#{TICKET}") as desktop:
        done = desktop.act(
            actions.click(3, 4, count=2), picture={"format": "png"}, wait={"event": "screen.settled"}, id="1"
        )
        sent = door.asked[-1]
        assert sent["actions"] == [{"type": "click", "x": 3, "y": 4, "button": "left", "count": 2, "space": "screen"}]
        assert (sent["return"], sent["wait"], sent["id"]) == ({"format": "png"}, {"event": "screen.settled"}, "1")
        assert done.picture == Picture(4, b"png", "png", "shot:s1", (8, 6), (0, 0, 16, 12))
        assert desktop.screen(if_changed=5, cursor=False, region=[0, 0, 10, 10]).data is None
        assert door.asked[-1] == {"if_changed": "5", "cursor": "false", "region": "0,0,10,10"}
        event = desktop.wait_for(window="Writer", within=2)
        assert door.asked[-1] == {"event": "window.appeared", "within_ms": 2000, "match": {"title": "Writer"}}
        assert (event.kind, event.seq, event.data["untrusted"]) == ("window.appeared", 9, ["title"])
        desktop.wait_for("screen.settled", quiet=0.3, region=(0, 0, 5, 5), after=0)
        settled = {"event": "screen.settled", "within_ms": 30000, "quiet_ms": 300, "region": [0, 0, 5, 5], "after": 0}
        assert door.asked[-1] == settled
        with pytest.raises(DesktopError, match="a person drives") as refused:
            desktop.act(actions.type_text("x"))
        assert refused.value.body["results"] == []
        assert not isinstance(refused.value, PrivacyError)
        with pytest.raises(PrivacyError, match="wants it: privacy") as hidden:
            desktop.act(actions.type_text("in private"))
        assert (hidden.value.field, hidden.value.status) == ("privacy", 423)
        assert "privacy.off" in hidden.value.remedy
        with pytest.raises(StoppedError, match="wants it: stopped") as stopped:
            desktop.act(actions.type_text("where it is stopped"))
        assert (stopped.value.field, stopped.value.status) == ("stopped", 423)
        assert not isinstance(stopped.value, PrivacyError)


def test_older_service_tells_no_place_of_the_pointer(desktop: Desktop) -> None:
    assert desktop.last_event() == 7
    assert desktop.pointer() is None


def test_the_same_works_with_asyncio(url: str) -> None:
    async def use() -> bytes:
        async with await AsyncDesktop.connect(f"{url}/bare") as desktop:
            process = await desktop.processes.start(["/bin/bash", "--norc"], terminal=(100, 30))
            attached = await process.attach()
            await attached.resize(120, 40)
            await attached.write("stty size; exit 4\n")
            said = b"".join([piece.data async for piece in attached.output()])
            await attached.close()
            assert attached.exit_code == 4
            return said

    assert b"40 120" in asyncio.run(use())
