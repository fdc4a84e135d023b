"""Keys that a program pressed through a real gateway come up on a real screen as its session ends."""

import json
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from deskyard.computer import caller
from deskyard.computer.application import create
from deskyard.computer.display.part import Display
from tests.computer.desktop import Notes, Recorder, XServer, managed
from tests.gateway.conftest import LIVED, Lived, patient, run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.support.listening import listening
from tests.support.requirements import need_programs

SHIFT, CONTROL = 0x1, 0x4


@pytest.fixture(scope="module")
def server() -> Iterator[XServer]:
    need_programs("Xtigervnc", "dbus-daemon", "xfwm4")
    with managed() as running:
        yield running


@pytest.fixture(scope="module")
def door(server: XServer) -> Iterator[Gateway]:
    """The gateway; whoever comes to the service comes through it, also from an address of loopback."""
    with pytest.MonkeyPatch.context() as patch, run_gateway(Lived(weaken=patient)) as running:
        patch.setattr(caller, "LOOPBACK", ())
        display = Display(server.display, sink=Notes())
        listener = listening(LIVED, running.ports["computer"])
        config = uvicorn.Config(
            create([display], display.privacy), log_level="warning", lifespan="on", timeout_graceful_shutdown=1
        )
        serving = uvicorn.Server(config)
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_for("the screen", lambda: display.drive.driver == "agent" and serving.started)
        yield running
        serving.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def recorder(server: XServer) -> Iterator[Recorder]:
    """A look at what is down."""
    window = Recorder(server.display)
    yield window
    window.close()


def down(recorder: Recorder) -> int:
    mask: int = recorder.c.core.QueryPointer(recorder.c.root).reply().mask
    return mask & (SHIFT | CONTROL)


def presses(door: Gateway, bearer: dict[str, str], key: str) -> int:
    """Press a key through the gateway, and leave it down."""
    body = json.dumps({"actions": [{"type": "down", "key": key}]})
    headers = {**bearer, "Content-Type": "application/json"}
    return door.request("POST", "/d/d1/computer/v1/act", body, headers)[0].status


def test_revoked_program_lets_go_and_another_goes_on(door: Gateway, recorder: Recorder) -> None:
    ended, bearer = door.program()
    other, going_on = door.program()
    assert (presses(door, bearer, "shift"), presses(door, going_on, "ctrl")) == (200, 200)
    assert down(recorder) == SHIFT | CONTROL
    door.revoke(ended)
    wait_for("shift comes up", lambda: down(recorder) == CONTROL)
    assert presses(door, bearer, "shift") == 401
    assert presses(door, going_on, "ctrl") == 200
    door.revoke(other)
    wait_for("ctrl comes up", lambda: down(recorder) == 0)


def test_program_whose_time_is_over_lets_go(door: Gateway, recorder: Recorder) -> None:
    other, going_on = door.program()
    assert presses(door, going_on, "ctrl") == 200
    _, bearer = door.program(ttl=6)
    assert presses(door, bearer, "shift") == 200
    assert down(recorder) == SHIFT | CONTROL
    wait_for("shift comes up", lambda: down(recorder) == CONTROL)
    door.revoke(other)
    wait_for("ctrl comes up", lambda: down(recorder) == 0)
