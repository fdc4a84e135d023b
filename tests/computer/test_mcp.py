"""A real screen through the Model Context Protocol, by its official client."""

import base64
import io
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import BlobResourceContents
from PIL import Image

from tests.computer.desktop import HEIGHT, WIDTH, Person, Recorder, Service, XServer
from tests.support.mcp_client import MODES, Tools, talk, talk_within

TREE = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "deskyard_mcp"]
TOKEN = "t" * 40


def environment(service: Service) -> dict[str, str]:
    """What the program is told."""
    return {**os.environ, "PYTHONPATH": str(TREE / "sdk"), "DESKYARD_LINK": service.url}


def test_a_click_on_a_scaled_picture_hits_what_it_shows(service: Service, recorder: Recorder) -> None:
    async def use(tools: Tools) -> None:
        seen = (await tools("screenshot", max=512))["picture"]
        assert tools.picture is not None and tools.picture.mime_type == "image/jpeg"
        picture = Image.open(io.BytesIO(base64.b64decode(tools.picture.data)))
        assert list(picture.size) == seen["size"] == [WIDTH // 2, HEIGHT // 2]
        place = next(w["geometry"] for w in (await tools("windows"))["windows"] if w["id"] == recorder.id)
        x, y = (place[0] + 40) // 2, (place[1] + 60) // 2
        done = await tools("click", x=x, y=y, space=seen["space"])
        assert done["results"][0]["ok"] and done["picture"]["space"] != seen["space"]
        # Half a pixel of the picture is one of the screen.
        recorder.until(lambda: bool(recorder.buttons()), "the click")
        button, across, down = recorder.buttons()[0]
        assert (button, abs(across - 40) <= 1, abs(down - 60) <= 1) == (1, True, True)

    talk_within(service.url, use)


def test_a_batch_types_waits_and_shows_what_came_of_it(service: Service, recorder: Recorder) -> None:
    async def use(tools: Tools) -> None:
        place = {"x": 5, "y": 5, "space": f"window:{recorder.id}"}
        done = await tools("act", actions=[{"type": "click", **place}, {"type": "type", "text": "Grüße, 世界"}])
        assert [result["ok"] for result in done["results"]] == [True, True]
        assert done["wait"]["event"] == "screen.settled" and tools.picture is not None
        await tools("key", keys="shift+a")
        await tools("type", text="!")
        recorder.until(lambda: recorder.text == "Grüße, 世界A!", "the text")
        await tools("scroll", **place, dy=2)
        recorder.until(lambda: [b for b, *_ in recorder.buttons()].count(5) == 2, "the wheel")

    talk_within(service.url, use)


def test_a_window_is_awaited_from_before_its_program_was_started(service: Service, server: XServer) -> None:
    async def use(tools: Tools) -> None:
        started = await tools("start", command=["env", f"DISPLAY={server.display}", "xterm", "-T", "by the protocol"])
        found = await tools("wait", event="window.appeared", match={"title": "protocol"}, after=started["event"])
        assert found["untrusted"] == ["title", "class", "instance"]
        answer = await tools("events", after=started["event"])
        assert found["seq"] in [event["seq"] for event in answer["events"]]
        closed = await tools("window", id=found["id"], action="close")
        await tools("wait", event="window.closed", match={"id": found["id"]}, after=closed["event"])
        ended = await tools("process", id=started["id"], within_seconds=20)
        assert ended["running"] is False

    talk_within(service.url, use)


def test_refusals_name_field_value_reason_and_remedy(service: Service) -> None:
    async def use(tools: Tools) -> None:
        outside = await tools.refusal("click", x=WIDTH, y=0, space="screen")
        assert (outside["error"], outside["status"]) == ("actions[0].x", 400)
        assert str(WIDTH - 1) in outside["remedy"]
        failed = await tools.refusal("act", actions=[{"type": "move", "x": 0, "y": 0}, {"type": "paste", "text": "x"}])
        assert [result["ok"] for result in failed["results"]] == [True, False]
        assert (await tools.refusal("click", y=0, space="screen"))["error"] == "x"
        assert (await tools.refusal("key", keys="ctrl+nothing"))["error"] == "actions[0].keys"
        assert (await tools.refusal("key", keys="a", times=2))["error"] == "times"
        assert (await tools.refusal("fly"))["error"] == "tool"
        late = await tools.refusal("wait", event="clipboard.changed", within_seconds=0.1)
        assert (late["status"], late["value"]) == (408, "clipboard.changed")

    talk_within(service.url, use)


def test_input_beside_a_person_is_refused_until_they_leave(service: Service, person: Person) -> None:
    async def use(tools: Tools) -> None:
        before = service.last()
        person.tap()
        await tools("wait", event="person.took", after=before)
        refused = await tools.refusal("type", text="x")
        assert (refused["status"], refused["value"]) == (409, "person")
        await tools("wait", event="person.left", after=before)
        await tools("key", keys="shift")

    talk_within(service.url, use)


def test_the_clipboard_goes_both_ways_and_an_unchanged_screen_is_not_sent_again(service: Service) -> None:
    async def use(tools: Tools) -> None:
        await tools("set_clipboard", text="kopiert: é 世")
        assert (await tools("clipboard")) == {"text": "kopiert: é 世", "untrusted": ["text"]}
        state = (await tools("screenshot", format="png"))["picture"]["state"]
        assert tools.picture is not None and tools.picture.mime_type == "image/png"
        again = await tools("screenshot", if_changed=state)
        assert not again["picture"]["changed"] and "data" not in str(again)
        (screen,) = (await tools.client.read_resource("deskyard://screen")).contents
        assert isinstance(screen, BlobResourceContents)
        assert base64.b64decode(screen.blob).startswith(b"\xff\xd8")

    talk_within(service.url, use)


def test_a_client_starts_the_server_and_talks_to_it_by_stdio(service: Service) -> None:
    async def use(tools: Tools) -> None:
        assert {"screenshot", "act", "run", "write_file"} <= await tools.names()
        await tools("write_file", path="by stdio", text="Grüße\n")
        assert (await tools("run", command=["cat", "by stdio"]))["stdout"] == "Grüße\n"
        assert "untrusted" in (tools.client.instructions or "")

    talk(StdioServerParameters(command=PROGRAM[0], args=PROGRAM[1:], env=environment(service)), use)


EVENTS, WINDOWS, SCREEN = "deskyard://events", "deskyard://windows", "deskyard://screen"


async def watches(tools: Tools, server: XServer) -> None:
    """Start a program, and hear by subscriptions of its window, of what it draws, and of its end."""
    async with tools.subscribed(WINDOWS, SCREEN) as updates:
        command = ["env", f"DISPLAY={server.display}", "xterm", "-T", "by subscription"]
        started = await tools("start", command=command)
        waited = {WINDOWS, SCREEN}
        while waited or "by subscription" not in (titles := await shown(tools)):
            waited.discard(await updates.next())
        process = f"deskyard://processes/{started['id']}"
        async with tools.subscribed(process):
            await tools("window", id=titles["by subscription"], action="close")
            while await updates.next() != process:
                pass
        ended = await tools.read(process)
        assert ended["running"] is False
        happened = await tools.read(EVENTS)
        kinds = [event["event"] for event in happened["events"] if event["seq"] > started["event"]]
        assert {"window.appeared", "window.closed"} <= set(kinds)


async def shown(tools: Tools) -> dict[str, int]:
    """The windows' ids by their titles."""
    return {window["title"]: window["id"] for window in (await tools.read(WINDOWS))["windows"]}


@pytest.mark.parametrize("mode", MODES)
def test_a_subscriber_by_stdio_hears_of_a_real_screen(service: Service, server: XServer, mode: str) -> None:
    started = StdioServerParameters(command=PROGRAM[0], args=PROGRAM[1:], env=environment(service))
    talk(started, lambda tools: watches(tools, server), mode)


@pytest.fixture(scope="module")
def address(service: Service) -> Iterator[str]:
    """A server over HTTP; it says where."""
    variables = {**environment(service), "DESKYARD_MCP_TOKEN": TOKEN}
    process = subprocess.Popen([*PROGRAM, "--http", "0"], env=variables, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", line := process.stderr.readline())
        assert found, line
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM


def test_clients_with_the_token_use_it_over_http(address: str) -> None:
    async def use(tools: Tools) -> None:
        assert (await tools("screenshot"))["picture"]["size"] == [WIDTH, HEIGHT]

    talk(by_http(address), use)


@pytest.mark.parametrize("mode", MODES)
def test_a_subscriber_over_http_hears_of_a_real_screen(address: str, server: XServer, mode: str) -> None:
    talk(by_http(address), lambda tools: watches(tools, server), mode)


def by_http(address: str) -> Any:
    """The way of a client that has the token."""
    client = create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"})
    return streamable_http_client(address, http_client=client)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.test"}, 421),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.test"}, 403),
    ],
)
def test_others_get_nothing_over_http(address: str, headers: dict[str, str], status: int) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepted = {"Accept": "application/json, text/event-stream"}
    assert httpx.post(address, json=asked, headers={**accepted, **headers}).status_code == status


def test_it_listens_on_loopback_alone(address: str) -> None:
    port = int(address.split(":")[2].split("/")[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 5)
