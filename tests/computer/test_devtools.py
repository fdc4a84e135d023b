"""DevTools: a real Chromium with a profile of its own, driven through the service as long as no person drives."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deskyard_sdk import AsyncDesktop, Desktop, DesktopError
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from deskyard.computer.claims import digest
from deskyard.computer.devtools.browser import LOCK, PLACE, PROFILE
from deskyard.computer.devtools.part import Devtools
from deskyard.wire.computer import SCOPES_HEADER, SESSION_HEADER
from tests.computer.desktop import PATIENCE, Person, Service, XServer, temporary
from tests.computer.test_privacy import Privacy
from tests.support.requirements import need_programs

# Its sandbox wants an account that is not root; what else is here spares a small machine.
CHROMIUM = ("chromium", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--password-store=basic")
PAGE = (
    "data:text/html,<title>counter</title><button onclick='document.title=++n' id=b>more</button><script>n=0</script>"
)


class Desk(Service):
    """A service with DevTools, its account's home, and the part itself."""

    def __init__(self, server: XServer, home: Path, command: tuple[str, ...] = CHROMIUM) -> None:
        super().__init__(server.display, bus=server.bus, on_display=lambda display: Devtools(display, home, command))
        self.home = home

    def started(self) -> dict[str, Any]:
        """The browser, which runs from here on."""
        answer = self.client.post("/v1/devtools", json={})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def open(self, path: str = "/v1/devtools", scopes: str = "") -> ClientConnection:
        """A connection of a program."""
        headers = {SESSION_HEADER: "s" * 24, SCOPES_HEADER: scopes} if scopes else {}
        return connect(f"ws://127.0.0.1:{self.port}{path}", additional_headers=headers, proxy=None, max_size=None)


@pytest.fixture(scope="module")
def desk(server: XServer) -> Iterator[Desk]:
    """A service whose account has an empty home, with the session's environment; its browser is gone afterwards."""
    need_programs("chromium")
    with pytest.MonkeyPatch.context() as patch, temporary() as home:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        patch.setenv("HOME", str(home))
        running = Desk(server, home)
        yield running
        assert running.client.delete("/v1/devtools").json()["ok"]
        running.stop()


def ask(socket: ClientConnection, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
    """What the browser answers to a command; its events are passed over."""
    said = {"id": 7, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
    socket.send(json.dumps(said))
    while True:
        answer = json.loads(socket.recv(PATIENCE))
        if answer.get("id") == 7:
            return dict(answer)


def evaluated(socket: ClientConnection, expression: str, session: str = "") -> Any:
    answer = ask(socket, "Runtime.evaluate", session, expression=expression)
    return answer["result"]["result"].get("value")


@pytest.fixture
def page(desk: Desk) -> Iterator[tuple[ClientConnection, str]]:
    """A connection to the whole browser, and the session of a page in it."""
    with desk.open() as socket:
        target = ask(socket, "Target.createTarget", url="about:blank")["result"]["targetId"]
        session = ask(socket, "Target.attachToTarget", targetId=target, flatten=True)["result"]["sessionId"]
        ask(socket, "Page.enable", session)
        socket.send(json.dumps({"id": 8, "method": "Page.navigate", "sessionId": session, "params": {"url": PAGE}}))
        while json.loads(socket.recv(PATIENCE)).get("method") != "Page.loadEventFired":
            pass
        yield socket, session
        ask(socket, "Target.closeTarget", targetId=target)


def test_browser_has_a_window_on_the_screen_and_a_profile_of_its_own(desk: Desk) -> None:
    before = desk.last()
    about = desk.started()
    assert about["running"] and about["browser"].startswith("Chrome/"), about
    assert about["pages"][0]["url"] == "about:blank"
    assert [page["id"] for page in desk.started()["pages"]] == [about["pages"][0]["id"]], "a second start is none"
    if not any(window["class"].lower() == "chromium" for window in desk.windows()):
        desk.wait("window.appeared", match={"class": "Chromium"}, after=before)
    assert (desk.home / PROFILE / PLACE).exists() and not (desk.home / ".config/chromium/Default").exists()
    assert (desk.home / PROFILE).stat().st_mode & 0o077 == 0


def test_commands_reach_the_page_and_are_recorded_without_their_text(
    desk: Desk, page: tuple[ClientConnection, str]
) -> None:
    socket, session = page
    evaluated(socket, "b.click(); b.click(); 'a secret of mine'", session)
    assert evaluated(socket, "document.title", session) == "2"
    notes = [entry for entry in desk.notes.entries if entry["kind"] == "devtools"]
    assert [entry["method"] for entry in notes[-2:]] == ["Runtime.evaluate"] * 2
    assert notes[-1]["params"] == digest(json.dumps({"expression": "document.title"}))
    assert "a secret of mine" not in json.dumps(desk.notes.entries)


@pytest.mark.usefixtures("page")
def test_a_page_has_a_connection_of_its_own(desk: Desk) -> None:
    [found] = [page for page in desk.started()["pages"] if page["url"] == PAGE]
    with desk.open(found["path"]) as socket:
        assert evaluated(socket, "document.title = 'seen'; document.title") == "seen"
        ask(socket, "Page.captureScreenshot")
    with pytest.raises(InvalidStatus) as refused:
        desk.open("/v1/devtools/page/a%20b")
    assert refused.value.response.status_code == 400
    with desk.open("/v1/devtools/page/" + "0" * 32) as nobody, pytest.raises(ConnectionClosed) as ended:
        nobody.recv(PATIENCE)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == 4404
    assert ended.value.rcvd.reason == "page: is no page of the browser; see GET /v1/devtools"


def test_commands_are_refused_while_a_person_drives(
    desk: Desk, page: tuple[ClientConnection, str], server: XServer
) -> None:
    socket, session = page
    person = Person(server)
    try:
        before = desk.last()
        person.tap()
        desk.wait("person.took", after=before)
        answer = ask(socket, "Runtime.evaluate", session, expression="b.click()")
        with pytest.raises(InvalidStatus) as refused:
            desk.open()
        assert desk.client.delete("/v1/devtools").status_code == 409
        desk.wait("person.left", after=before)
    finally:
        person.leave()
    assert answer["sessionId"] == session and "a person is using" in answer["error"]["message"], answer
    assert "person.left" in answer["error"]["message"] and refused.value.response.status_code == 409
    assert evaluated(socket, "document.title", session) == "counter", "what was refused was not done later"


def test_connection_is_cut_while_a_person_wants_privacy(desk: Desk) -> None:
    desk.started()
    word = Privacy(desk)
    try:
        with desk.open() as socket:
            ask(socket, "Browser.getVersion")
            word.say(on=True)
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4423
        with pytest.raises(InvalidStatus) as refused:
            desk.open()
        assert refused.value.response.status_code == 423
    finally:
        word.close()
        desk.client.post("/v1/drive", json={"driver": "agent"})
    assert desk.started()["running"]


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"method": "Browser.close"}', '{"id": "1", "method": "x"}'])
def test_what_is_no_command_is_answered_and_not_passed_on(desk: Desk, text: str) -> None:
    desk.started()
    with desk.open() as socket:
        before = len(desk.notes.entries)
        socket.send(text)
        assert json.loads(socket.recv(PATIENCE))["error"]["code"] == -32600
        socket.send(text.encode())
        assert json.loads(socket.recv(PATIENCE))["error"]["code"] == -32600
        assert ask(socket, "Browser.getVersion")["result"]["product"].startswith("Chrome/")
        assert len(desk.notes.entries) == before + 1


@pytest.mark.parametrize("scopes", ["see,act", "see,files", "act,files", "files,shell"])
def test_the_browser_is_for_who_may_see_act_and_use_files(desk: Desk, scopes: str) -> None:
    headers = {SESSION_HEADER: "s" * 24, SCOPES_HEADER: scopes}
    for method in ("POST", "DELETE"):
        answer = desk.client.request(method, "/v1/devtools", headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "scope")
    with pytest.raises(InvalidStatus) as refused:
        desk.open(scopes=scopes)
    assert refused.value.response.status_code == 403
    with desk.open(scopes="see,act,files") as socket:
        assert ask(socket, "Browser.getVersion")["result"]


def test_browser_outlives_the_service_and_a_killed_one_is_started_anew(desk: Desk, server: XServer) -> None:
    first = desk.started()
    again = Desk(server, desk.home)
    try:
        assert {page["id"] for page in again.started()["pages"]} == {page["id"] for page in first["pages"]}
        with again.open() as socket:
            # A connection is open before its browser is there.
            ask(socket, "Browser.getVersion")
            os.kill(_pid(desk), signal.SIGKILL)
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4410
        assert (desk.home / PROFILE / PLACE).exists(), "the case that is tried"
        assert again.client.get("/v1/devtools").json() == {"running": False, "path": "/v1/devtools"}
        assert again.started()["running"]
        assert again.client.delete("/v1/devtools").json() == {"ok": True, "ended": True}
        assert again.client.delete("/v1/devtools").json() == {"ok": True, "ended": False}
    finally:
        again.stop()


def _pid(desk: Desk) -> int:
    """The process of the browser, as the lock of its profile names it."""
    return int(str((desk.home / PROFILE / LOCK).readlink()).rsplit("-", 1)[1])


def test_a_browser_that_does_not_start_is_named(server: XServer, tmp_path: Path) -> None:
    for command, status, reason in ((("false",), 409, "ended at once, with 1"), (("sleep", "60"), 408, "no DevTools")):
        desk = Desk(server, tmp_path, ("sh", "-c", " ".join(["exec", *command, "#"])))
        try:
            answer = desk.client.post("/v1/devtools", json={"within_ms": 300})
            assert answer.status_code == status and reason in answer.json()["reason"], answer.text
            if status == 409:
                with desk.open() as socket, pytest.raises(ConnectionClosed) as ended:
                    socket.recv(PATIENCE)
                assert ended.value.rcvd is not None and ended.value.rcvd.code == 4409
                assert ended.value.rcvd.reason.startswith(f"browser: {reason}; look whether"), ended.value
            if status == 408:
                os.kill(int(answer.json()["value"]), signal.SIGKILL)
        finally:
            desk.stop()


def test_sdk_opens_the_browser_and_names_what_other_libraries_need(desk: Desk) -> None:
    async def used() -> None:
        async with await AsyncDesktop.connect(desk.url) as desktop:
            browser = await desktop.devtools.start()
            assert browser.running and browser.pages[0].path.startswith("/v1/devtools/page/")
            async with await desktop.devtools.open() as socket:
                await socket.send('{"id": 1, "method": "Browser.getVersion"}')
                assert json.loads(await socket.recv())["result"]["product"] == browser.product
            async with await desktop.devtools.open(browser.pages[0]) as socket:
                await socket.send('{"id": 2, "method": "Page.enable"}')
            address, headers = desktop.devtools.address()
            assert address == f"ws://127.0.0.1:{desk.port}/v1/devtools" and headers == {}
            with pytest.raises(DesktopError, match="is no page's id"):
                await desktop.devtools.open("a%20page")
            with pytest.raises(ConnectionClosed, match="is no page of the browser"):
                await (await desktop.devtools.open("0" * 32)).recv()

    asyncio.run(used())


def test_sdk_without_asyncio_starts_and_ends_it(desk: Desk) -> None:
    with Desktop.connect(desk.url) as desktop:
        assert desktop.devtools.start().running
        assert desktop.devtools.state().pages
        assert desktop.devtools.stop()
        assert not desktop.devtools.state().running
    # Its profile is free for the next.
    assert not (desk.home / PROFILE / LOCK).is_symlink()
