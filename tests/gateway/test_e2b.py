"""E2B's unmodified clients on a desktop, through the program, a real gateway and the real service behind it."""

import asyncio
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from deskyard_e2b import environment
from deskyard_e2b.naming import sandbox_of
from deskyard_sdk import DesktopError
from deskyard_sdk.errors import unreachable
from deskyard_sdk.mission import AsyncMissionControl, DesktopState, Operation, Workspace
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    FileNotFoundException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxState,
    TimeoutException,
    exceptions,
)
from e2b.sandbox.commands.command_handle import PtySize

from tests.gateway.support import Gateway, wait_for
from tests.support import npm
from tests.support.e2b_door import Served, served

# What e2b 2.45 has no names of their own for.
UNREACHABLE = getattr(exceptions, "SandboxUnreachableException", TimeoutException)
NOT_RUNNING = getattr(exceptions, "SandboxNotRunningException", TimeoutException)
KEY, OTHER = "dyk_first", "dyk_second"
TIER = {"name": "free", "vcpus": 2, "memoryGib": 4.0, "diskGib": 20, "homeGib": 10}


class Played(AsyncMissionControl):
    """A Mission Control that knows desktops by name, and gives links of a real gateway to d1 for all but d2."""

    def __init__(self, gateway: Gateway, states: dict[str, str], ca: str) -> None:
        super().__init__(httpx.AsyncClient(verify=False), ca)
        self._gateway, self._states = gateway, states

    async def workspaces(self) -> Any:
        yield await self.workspace("demo")

    async def workspace(self, id: str) -> Workspace:
        return cast(Workspace, {"id": id, "tiers": [TIER]})

    async def desktop(self, id: str) -> DesktopState:
        if id not in self._states:
            raise DesktopError("desktop", id, "is not known", "see the list", 404)
        stands = {"workspaceId": "demo", "tier": "free", "state": self._states[id], "operation": None}
        return cast(DesktopState, {"id": id, "stateAt": "2026-01-01T00:00:00Z", **stands})

    async def create(self, workspace: str, name: str, *_: Any, **__: Any) -> Operation:
        return self._becomes(f"{workspace}.{name}", "ready")

    async def start(self, id: str) -> Operation:
        return self._becomes(id, "ready")

    async def stop(self, id: str, force: bool = False) -> Operation:
        return self._becomes(id, "stopped")

    async def pause(self, id: str, to_disk: bool = False) -> Operation:
        assert to_disk
        return self._becomes(id, "paused")

    async def resume(self, id: str) -> Operation:
        assert self._states[id] == "paused"
        return self._becomes(id, "ready")

    async def destroy(self, id: str) -> Operation:
        del self._states[id]
        return cast(Operation, {"id": "op"})

    async def wait(self, operation: Any, seconds: float = 0) -> Operation:
        return cast(Operation, operation)

    async def link(self, id: str, mode: str = "drive", scopes: Any = None) -> str:
        if self._states[id] == "paused":
            # As the real one does.
            raise DesktopError("desktop", id, "is paused", "let it go on", 409)
        if id == "demo.silent":
            raise unreachable("https://demo", ConnectionRefusedError())
        desktop = "d2" if id == "demo.d2" else "d1"
        wanted = None if scopes is None else list(scopes)
        return str(self._gateway.grant(desktop, mode=mode, scopes=wanted)["url"])

    def _becomes(self, id: str, state: str) -> Operation:
        self._states[id] = state
        return cast(Operation, {"id": "op"})


@pytest.fixture
def door(lived: Gateway, authority: str, tmp_path: Path) -> Iterator[Served]:
    states = {f"demo.{name}": "ready" for name in ("d1", "d2", "silent")}

    async def opens(key: str) -> AsyncMissionControl:
        if key not in (KEY, OTHER):
            raise DesktopError("caller", "", "is not known here", "sign in", 401)
        return Played(lived, states, authority)

    with served(tmp_path / "e2b.sqlite", opens) as found:
        yield found


@pytest.fixture
def sandbox(door: Served) -> Sandbox:
    return door.connect(KEY, "demo--d1")


def asked(door: Served, sandbox: Sandbox, path: str = "/health", **headers: str) -> httpx.Response:
    """What a client with other headers than its own is answered."""
    own = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": sandbox._envd_access_token or ""}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(door.url + path, headers={**own, **named})


def test_commands_files_and_terminals_work_from_outside(sandbox: Sandbox) -> None:
    assert sandbox.is_running()
    assert sandbox.commands.run("echo out; echo trouble >&2", envs={"A": "b"}).stderr == "trouble\n"
    content = bytes(range(256)) * 8192
    for more in ({}, {"use_octet_stream": True}, {"gzip": True}):
        sandbox.files.write("deep/er/file", io.BytesIO(content), **cast(Any, more))
        assert sandbox.files.read("deep/er/file", format="bytes", gzip=True) == content
    assert b"".join(sandbox.files.read("deep/er/file", format="stream")) == content
    assert sandbox.files.write("noted", "x", metadata={"by": "me"}).metadata == {"by": "me"}
    watch = sandbox.files.watch_dir("deep")
    sandbox.files.write("deep/new", "x")
    assert "new" in {event.name for event in watch.get_new_events()}
    watch.stop()
    assert {entry.name for entry in sandbox.files.list("deep")} == {"er", "new"}
    said: list[bytes] = []
    terminal = sandbox.pty.create(PtySize(cols=100, rows=30))
    sandbox.pty.resize(terminal.pid, PtySize(cols=120, rows=40))
    sandbox.pty.send_stdin(terminal.pid, b"tput cols; exit 0\n")
    assert terminal.wait(on_pty=said.append).exit_code == 0
    assert b"120" in b"".join(said)


def test_the_javascript_client_finds_what_it_knows(door: Served, e2b_packages: Path) -> None:
    said = {"id": "demo--d1", "options": door.for_javascript(KEY)}
    npm.run(e2b_packages, "sandbox.mjs", said)


def test_the_asynchronous_client_works_from_outside(door: Served) -> None:
    async def use() -> None:
        sandbox = await AsyncSandbox.connect("demo--d1", **door.with_key(KEY))
        heard = asyncio.Event()
        command = await sandbox.commands.run(
            "read line; echo got $line; cat", background=True, stdin=True, on_stdout=lambda _: heard.set()
        )
        await command.send_stdin("first\n")
        await asyncio.wait_for(heard.wait(), 40)
        await command.send_stdin("second\n")
        await command.close_stdin()
        assert (await command.wait()).stdout == "got first\nsecond\n"
        written = asyncio.Event()
        await sandbox.files.make_dir("watched")
        watch = await sandbox.files.watch_dir("watched", on_event=lambda _: written.set())
        content = bytes(range(256)) * 4096
        await sandbox.files.write("watched/file", content)
        await asyncio.wait_for(written.wait(), 40)
        await watch.stop()  # type: ignore[no-untyped-call]
        stream = await sandbox.files.read("watched/file", format="stream")
        assert b"".join([part async for part in stream]) == content
        said: list[bytes] = []
        terminal = await sandbox.pty.create(PtySize(cols=100, rows=30), on_data=said.append)
        await sandbox.pty.resize(terminal.pid, PtySize(cols=120, rows=40))
        await sandbox.pty.send_stdin(terminal.pid, b"tput cols; exit 0\n")
        assert (await terminal.wait()).exit_code == 0
        assert b"120" in b"".join(said)

    asyncio.run(use())


def test_both_ways_come_as_they_are_said(sandbox: Sandbox) -> None:
    command = sandbox.commands.run("while read line; do echo got $line; done", background=True, stdin=True)
    heard = {word: threading.Event() for word in ("first", "second")}
    said: list[str] = []

    def listen(text: str) -> None:
        said.append(text)
        heard["first" if "first" in text else "second"].set()

    def speak() -> Iterator[str]:
        yield "first\n"
        assert heard["first"].wait(40), "the answer did not come before the request was over"
        yield "second\n"
        assert heard["second"].wait(40)

    result: list[Any] = []
    waiting = threading.Thread(target=lambda: result.append(command.wait(on_stdout=listen)))
    waiting.start()
    sandbox.commands.stream_input(command.pid, speak())
    sandbox.commands.close_stdin(command.pid)
    waiting.join(60)
    assert (result[0].stdout, said) == ("got first\ngot second\n", ["got first\n", "got second\n"])


def test_what_the_desktop_refuses_comes_as_it_says(sandbox: Sandbox) -> None:
    assert not sandbox.commands.kill(999_999)
    with pytest.raises(NotFoundException, match="999999"):
        sandbox.commands.send_stdin(999_999, "x")
    with pytest.raises(FileNotFoundException, match="no-such"):
        sandbox.files.read("no-such")


def test_many_run_at_once_and_whoever_leaves_frees_the_way(door: Served, sandbox: Sandbox) -> None:
    running = [sandbox.commands.run("read", background=True, stdin=True) for _ in range(6)]
    assert sandbox.commands.run("echo still answered").stdout == "still answered\n"
    assert door.program is not None
    passing = door.program.ways._passing
    wait_for("each goes on by itself", lambda: len(passing["demo--d1"]) == 6)
    for command in running[:3]:
        command.disconnect()
    wait_for("those who left are gone", lambda: len(passing["demo--d1"]) == 3)
    assert len([process for process in sandbox.commands.list() if process.pid in [c.pid for c in running]]) == 6
    for command in running:
        assert command.kill()


def test_a_token_is_for_its_sandbox_alone(door: Served, sandbox: Sandbox) -> None:
    other = door.connect(KEY, "demo--d2")
    assert sandbox._envd_access_token != other._envd_access_token
    for token in ("", "dye_" + "0" * 64, other._envd_access_token or "", KEY):
        answer = asked(door, sandbox, X_Access_Token=token)
        assert (answer.status_code, answer.json()["code"]) == (401, 401)
    assert asked(door, sandbox).status_code == 204
    answer = asked(door, sandbox, E2b_Sandbox_Port="8080")
    assert (answer.status_code, "is not reached from outside" in answer.text) == (501, True)
    assert asked(door, sandbox, E2b_Sandbox_Id="demo--nowhere").status_code == 502
    with pytest.raises(AuthenticationException, match="is not the account of this desktop"):
        sandbox.commands.run("true", user="somebody-else")
    with pytest.raises(AuthenticationException):
        door.connect("dyk_third", "demo--d1")


def test_a_desktop_hears_neither_key_nor_token(door: Served) -> None:
    other = door.connect(KEY, "demo--d2")
    said = asked(door, other, "/files?path=a%20b", X_API_KEY=KEY, Cookie="a=b", Range="bytes=0-1").text
    assert said.startswith("GET /files?path=a%20b HTTP/1.1\r\n")
    assert "range: bytes=0-1" in said.lower()
    assert "x-deskyard-scopes: files,shell\r\n" in said.lower()
    for secret in (KEY, other._envd_access_token or "-", "bearer", "cookie", "e2b-sandbox"):
        assert secret.lower() not in said.lower()


def test_a_sandbox_that_is_killed_cuts_what_runs_and_is_not_found(door: Served) -> None:
    sandbox = door.create(KEY)
    command = sandbox.commands.run("read", background=True, stdin=True)
    assert sandbox.kill()
    with pytest.raises(TimeoutException):
        command.wait()
    assert not sandbox.is_running()
    with pytest.raises(TimeoutException, match="was not found"):
        sandbox.commands.run("true")
    assert asked(door, sandbox).status_code == 502
    with pytest.raises(TimeoutException, match="was not found"):
        sandbox.files.read("x")


def test_a_desktop_that_is_silent_or_paused_is_told_apart(door: Served) -> None:
    silent = door.connect(KEY, "demo--silent")
    with pytest.raises(UNREACHABLE, match="port is not open"):
        silent.commands.run("true")
    assert silent.pause()
    assert not silent.is_running()
    with pytest.raises(NOT_RUNNING):
        silent.commands.run("true")


def test_a_sandbox_that_was_paused_goes_on_with_what_runs_in_it(door: Served, sandbox: Sandbox) -> None:
    running = sandbox.commands.run("while read line; do echo got $line; done", background=True, stdin=True)
    assert sandbox.pause()
    with pytest.raises(TimeoutException):
        running.wait()
    assert not sandbox.is_running()
    with pytest.raises(NOT_RUNNING):
        sandbox.commands.run("true")
    assert asked(door, sandbox).status_code == 502
    again = door.connect(KEY, sandbox.sandbox_id)
    said: list[str] = []
    joined = again.commands.connect(running.pid)
    again.commands.send_stdin(running.pid, "more\n")
    again.commands.close_stdin(running.pid)
    joined.wait(on_stdout=said.append)
    assert said == ["got more\n"]
    # The object from before is as good.
    assert sandbox.commands.run("echo again").stdout == "again\n"


def test_a_strict_pause_is_of_a_desktop_that_answers(door: Served, sandbox: Sandbox) -> None:
    def pause(id: str) -> httpx.Response:
        place, body = f"{door.url}/sandboxes/{id}/pause", {"requireHealthyGuest": True}
        return httpx.post(place, headers={"X-API-KEY": KEY}, json=body, timeout=60)

    refused = pause("demo--silent")
    assert (refused.status_code, "since it does not answer" in refused.json()["message"]) == (503, True)
    assert Sandbox.get_info("demo--silent", api_key=KEY, api_url=door.url).state == SandboxState.RUNNING
    assert pause(sandbox.sandbox_id).status_code == 204


def test_after_a_restart_a_handle_works_as_soon_as_its_key_was_heard(door: Served, sandbox: Sandbox) -> None:
    door.restart()
    with pytest.raises(TimeoutException, match=r"call Sandbox\.connect\(\) once"):
        sandbox.commands.run("true")
    assert door.connect(OTHER, "demo--d1").commands.run("echo other").stdout == "other\n"
    with pytest.raises(SandboxException, match="has not heard its key"):
        sandbox.files.read("x")
    assert door.connect(KEY, "demo--d1").commands.run("echo again").stdout == "again\n"
    assert sandbox.commands.run("echo as before").stdout == "as before\n"


def test_a_session_that_was_ended_at_the_gateway_is_opened_anew(lived: Gateway, sandbox: Sandbox) -> None:
    assert sandbox.commands.run("echo before").stdout == "before\n"
    lived.revoke(desktop="d1")
    assert sandbox.files.exists("/tmp")
    assert sandbox.commands.run("echo after").stdout == "after\n"


def test_variables_of_a_sandbox_are_kept_on_its_desktop_alone(door: Served) -> None:
    sandbox = door.create(KEY, envs={"COLOUR": "secret blue", "SHADE": "dark"})
    say = "echo $COLOUR, $SHADE"
    assert sandbox.commands.run(say).stdout == "secret blue, dark\n"
    assert sandbox.commands.run(say, envs={"SHADE": "light"}).stdout == "secret blue, light\n"
    door.restart()
    assert door.connect(KEY, sandbox.sandbox_id).commands.run(say).stdout == "secret blue, dark\n"
    assert b"secret blue" not in door.state.read_bytes()
    kept = sandbox.files.get_info(environment.PLACE.replace("~/", ""))
    assert kept.mode == 0o600
    assert door.connect(KEY, sandbox_of("demo.d1")).commands.run(say).stdout == ",\n"
