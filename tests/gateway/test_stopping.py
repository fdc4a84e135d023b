"""A person stops a desktop's agent: no program comes through the door, by HAProxy itself, and its desktop is told."""

import json
import os
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from deskyard.gateway.config import render
from deskyard.gateway.session import line
from deskyard.wire import session_requests
from deskyard.wire.computer import HALT_PORT
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.gateway.test_weakened import without

SCREEN = "/d/d1/computer/v1/screen"
EVENTS = "/d/{}/computer/v1/events"
WAIT = "/d/d1/computer/v1/wait"


class Desktop(socketserver.ThreadingTCPServer):
    """Where a desktop's agent is halted: by words, as the gateway says them."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, address: str) -> None:
        self.still = False
        self.words: list[str] = []
        super().__init__((address, HALT_PORT), Word)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Word(socketserver.StreamRequestHandler):
    """One connection."""

    server: Desktop

    def handle(self) -> None:
        self.server.words.append(json.loads(self.rfile.readline())["agent"])
        self.server.still = self.server.words[-1] == "stop"
        self.wfile.write(json.dumps({"still": self.server.still}).encode() + b"\n")


def own_names() -> dict[str, str]:
    """Desktops at addresses of this process alone: where the agent is halted, the port is the same for all."""
    second, third = divmod(os.getpid() % 62_500, 250)
    return {f"d{n}": f"127.{second + 2}.{third + 1}.{9 + n}" for n in (1, 2)}


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    with run_gateway(Gateway(names=own_names())) as running:
        yield running


@pytest.fixture
def desktop(door: Gateway) -> Iterator[Desktop]:
    """The desktop d1, whose agent runs, and where nobody is at work."""
    door.revoke(all=True)
    with Desktop(door.names["d1"]) as there:
        asked(door, "go", "d1")
        wait_for("the end of the stop before", lambda: asked(door, "list") == [])
        there.words.clear()
        yield there
        asked(door, "go", "d1")
        wait_for("the end of the stop", lambda: asked(door, "list") == [])
        there.shutdown()


def asked(gateway: Gateway, action: str, desktop: str | None = None) -> list[dict[str, Any]]:
    """What the host asks on the private line."""
    answer: list[dict[str, Any]] = line.ask(
        gateway.layout.admin_socket, session_requests.agent(action, desktop, "operator")
    )
    return answer


def does(gateway: Gateway, who: dict[str, str], action: str) -> tuple[int, dict[str, Any]]:
    headers = {"Origin": gateway.origin, **who}
    answer, data = gateway.request("POST", "/d/d1/drive", json.dumps({"action": action}), headers)
    return answer.status, json.loads(data)


def facts(gateway: Gateway, cookie: str) -> dict[str, Any]:
    return dict(json.loads(gateway.request("GET", "/d/d1/session", headers={"Cookie": cookie})[1]))


def seen(gateway: Gateway, bearer: dict[str, str]) -> tuple[int, dict[str, Any]]:
    answer, data = gateway.request("GET", SCREEN, None, bearer)
    return answer.status, json.loads(data) if answer.status != 200 else {}


def test_stop_shuts_programs_out_when_it_is_answered_and_halts_the_desktop(door: Gateway, desktop: Desktop) -> None:
    id, cookie = door.session("d1", actor="ann")
    _, bearer = door.program()
    assert (seen(door, bearer)[0], facts(door, cookie)["agent"]) == (200, {"stopped": False})
    status, answer = does(door, {"Cookie": cookie}, "stop")
    assert (status, answer["agent"]["stopped"], answer["agent"]["by"], answer["agent"]["shut"]) == (
        200,
        True,
        "ann",
        True,
    )
    status, refused = seen(door, bearer)
    assert (status, refused["error"]) == (423, "stopped")
    assert "lets it go on" in refused["remedy"]
    wait_for("the desktop to say that it stands still", lambda: facts(door, cookie)["agent"]["still"] is True)
    assert desktop.still
    assert does(door, {"Cookie": cookie}, "go")[1]["agent"]["stopped"] is False
    assert seen(door, bearer)[0] == 200
    wait_for("the desktop to go on", lambda: facts(door, cookie)["agent"] == {"stopped": False})
    assert desktop.words[-1] == "go"
    assert [(n["event"], n["actor"], n["session"], n["result"]) for n in noted(door, id)] == [
        ("halt", "ann", id, "stopped"),
        ("resume", "ann", id, "goes on"),
    ]


def noted(gateway: Gateway, id: str) -> list[dict[str, Any]]:
    return [n for n in gateway.audit() if n["event"] in ("halt", "resume") and n.get("session") == id]


def test_what_programs_have_open_is_cut_and_people_and_other_desktops_stay(door: Gateway, desktop: Desktop) -> None:
    _, cookie = door.session("d1")
    _, bearer = door.program("d1")
    _, other = door.program("d2")
    screen = door.upgrade("/d/d1/vnc", cookie)
    events = door.upgrade(EVENTS.format("d1"), Origin=None, **bearer)
    elsewhere = door.upgrade(EVENTS.format("d2"), Origin=None, **other)
    for there in (screen, events, elsewhere):
        there.read_until(b"|")
    assert does(door, {"Cookie": cookie}, "stop")[0] == 200
    assert events.closes()
    assert "still" in elsewhere.echo("still") and "there" in screen.echo("there")
    assert door.upgrade("/d/d1/terminal", cookie).status == 101
    body = '{"event": "privacy.off", "within_ms": 60000}'
    assert door.request("POST", WAIT, body, bearer)[0].status == 423, "nothing there would answer"


def test_who_watches_and_programs_neither_stop_it_nor_let_it_go(door: Gateway, desktop: Desktop) -> None:
    _, cookie = door.session("d1", mode="view")
    _, bearer = door.program()
    for who in ({"Cookie": cookie}, bearer):
        assert does(door, who, "stop")[0] == 403
    assert asked(door, "list") == []
    asked(door, "stop", "d1")
    for who in ({"Cookie": cookie}, bearer):
        assert does(door, who, "go")[0] == 403
    assert facts(door, cookie)["agent"]["stopped"] is True, "who watches is told"


def test_what_the_host_has_stopped_the_host_lets_go(door: Gateway, desktop: Desktop) -> None:
    _, cookie = door.session("d1")
    (halt,) = asked(door, "stop", "d1")
    assert (halt["desktop"], halt["by"], halt["by_host"], halt["stopped"]) == ("d1", "operator", True, True)
    status, problem = does(door, {"Cookie": cookie}, "go")
    assert (status, problem["error"]) == (409, "agent")
    assert "operator" in problem["message"]
    assert seen(door, door.program()[1])[0] == 423
    ping = line.ask(door.layout.admin_socket, {"command": "ping"})
    assert [(halt["desktop"], halt["by"]) for halt in ping["stopped"]] == [("d1", "operator")]
    asked(door, "go", "d1")
    wait_for("programs to come in", lambda: seen(door, door.program()[1])[0] == 200)


def test_stop_outlives_a_new_worker_and_a_new_service(door: Gateway, desktop: Desktop) -> None:
    _, cookie = door.session("d1")
    _, bearer = door.program()
    does(door, {"Cookie": cookie}, "stop")
    door.reload()
    assert seen(door, bearer)[0] == 423, "a worker begins with what is so"
    service = door.processes[0]
    service.terminate()
    service.wait(20)
    assert seen(door, bearer)[0] == 423, "HAProxy refuses by itself"
    desktop.still = False
    door.processes[0] = door.start_service()
    door.processes.pop()
    assert (seen(door, bearer)[0], facts(door, cookie)["agent"]["stopped"]) == (423, True)
    wait_for("the desktop to be halted again", lambda: desktop.still)


@pytest.mark.parametrize("desktop_name", ["nobody", None])
def test_host_that_names_no_desktop_is_refused(door: Gateway, desktop_name: str | None) -> None:
    with pytest.raises(Exception, match="no agent that this gateway could stop"):
        asked(door, "stop", desktop_name)


def test_door_that_lets_programs_in_all_the_same_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    good = render.backends
    monkeypatch.setattr(render, "backends", lambda *values: without('"stopped"')(good(*values)))
    with run_gateway(Gateway(names=own_names())) as weak, Desktop(weak.names["d1"]) as desktop:
        with pytest.raises(AssertionError):
            test_stop_shuts_programs_out_when_it_is_answered_and_halts_the_desktop(weak, desktop)
        desktop.shutdown()
