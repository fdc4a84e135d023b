"""A person and an agent at one keyboard: one drives, and the person goes first."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from xcffib import xproto

from deskyard.computer import halting
from deskyard.computer.display.acting import drive_routes
from deskyard.computer.display.acting.drive import MOTION, fake
from deskyard.computer.display.part import Settings
from deskyard.computer.display.x_server import XConnection
from deskyard.computer.peers import is_roots
from tests.computer.desktop import HEIGHT, PATIENCE, PERSONS_KEY, WIDTH, Person, Recorder, Service, XServer, in_front

SHIFT = 0xFFE1


def test_a_persons_first_key_takes_the_drive(service: Service, person: Person) -> None:
    before = service.last()
    person.tap()
    assert service.wait("person.took", after=before)["by"] == "key"
    answer = service.act({"type": "move", "x": 1, "y": 1})
    assert answer.status_code == 409
    assert (answer.json()["error"], answer.json()["value"]) == ("driver", "person")
    assert "person.left" in answer.json()["remedy"]
    assert service.wait("person.left", after=before)["by"] == "quiet"
    service.did({"type": "move", "x": 1, "y": 1})


def test_a_persons_button_takes_the_drive_and_a_mere_look_does_not(service: Service, person: Person) -> None:
    before = service.last()
    person.pointer(5, 5)
    service.did({"type": "move", "x": 1, "y": 1})
    person.pointer(1000, 700, buttons=1)
    person.pointer(1000, 700)
    assert service.wait("person.took", after=before)["by"] == "button"


def pointer_of(service: Service) -> dict[str, int] | None:
    """Where the service says that the pointer is."""
    found: dict[str, int] | None = service.client.get("/v1/drive").json()["pointer"]
    return found


def test_place_of_the_pointer_is_told_whoever_moved_it(
    service: Service, server: XServer, recorder: Recorder, person: Person
) -> None:
    service.did({"type": "move", "x": 7, "y": 9})
    assert pointer_of(service) == {"x": 7, "y": 9}
    program = XConnection(server.display)
    fake(program, MOTION, 0, program.root, (WIDTH - 1, HEIGHT - 1))
    program.settle()
    program.close()
    assert pointer_of(service) == {"x": WIDTH - 1, "y": HEIGHT - 1}
    left, top, *_ = next(window["geometry"] for window in service.windows() if window["id"] == recorder.id)
    person.pointer(left + 20, top + 30)
    recorder.until(lambda: recorder.moved_to(left + 20, top + 30), "the pointer over the window")
    assert pointer_of(service) == {"x": left + 20, "y": top + 30}
    assert service.part.drive.driver == "agent"


def test_place_of_the_pointer_is_for_who_may_see(service: Service) -> None:
    acts = {"x-deskyard-session": "s1", "x-deskyard-scopes": "act"}
    assert service.client.get("/v1/drive", headers=acts).status_code == 403
    answer = service.client.post("/v1/drive", json={"driver": "agent"}, headers=acts)
    assert answer.status_code == 200 and "pointer" not in answer.json()


def test_who_drives_is_told_while_a_program_has_the_server_for_itself_and_the_pointer_is_not(
    service: Service, server: XServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive_routes, "ANSWER_SECONDS", 0.1)
    service.did({"type": "move", "x": 11, "y": 13})
    program = XConnection(server.display)
    program.core.GrabServer()
    program.settle()
    try:
        # The second is never begun, and is given up.
        for _ in range(2):
            answer = service.client.get("/v1/drive").json()
            assert (answer["driver"], answer["pointer"]) == ("agent", None)
    finally:
        program.close()
    monkeypatch.undo()
    assert pointer_of(service) == {"x": 11, "y": 13}


def test_the_agents_own_keys_are_not_a_persons(service: Service, recorder: Recorder) -> None:
    service.did({"type": "type", "text": "aé€"}, {"type": "click", "x": 0, "y": 0, "space": f"window:{recorder.id}"})
    assert service.part.drive.driver == "agent"


def test_what_the_agent_holds_is_let_go_when_a_person_comes(
    service: Service, recorder: Recorder, person: Person
) -> None:
    service.did({"type": "down", "key": "shift"}, {"type": "down", "x": 5, "y": 5, "space": f"window:{recorder.id}"})
    assert recorder.c.core.QueryPointer(recorder.c.root).reply().mask & 0x101 == 0x101
    before = service.last()
    person.tap(ord("k"))
    service.wait("person.took", after=before)
    assert service.part.drive.held == []

    def up() -> bool:
        keys = {recorder.map[e.detail][0] for e in recorder.seen if type(e) is xproto.KeyReleaseEvent}
        return SHIFT in keys and any(type(e) is xproto.ButtonReleaseEvent for e in recorder.seen)

    # The server may hold a button back for the window manager a while, so its state says nothing at this moment.
    recorder.until(up, "shift and the button come up")
    assert recorder.c.core.QueryPointer(recorder.c.root).reply().mask & 0x101 == 0


def test_a_text_that_is_being_typed_stops_when_a_person_comes(
    service: Service, recorder: Recorder, person: Person
) -> None:
    answers = []

    def type_on() -> None:
        answers.append(service.act({"type": "type", "text": "ab" * 10_000}))

    typing = threading.Thread(target=type_on)
    typing.start()
    recorder.until(lambda: len(recorder.text) > 20, "the first letters")
    person.tap()
    typing.join(60)
    assert answers[0].status_code == 409
    assert answers[0].json()["results"][0]["ok"] is False
    assert len(recorder.text) < 20_000
    assert service.part.drive.held == []


def test_who_is_stopped_is_refused_until_it_is_let_go_on_however_long_it_is_quiet(
    server: XServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Service(server.display, Settings(quiet_seconds=0.05))
    with in_front(server, own) as recorder:
        own.did({"type": "down", "key": "shift"})
        monkeypatch.setattr(halting, "COMPUTER", SimpleNamespace(port=own.port))
        before = own.last()
        halting.say(stopped=True)
        recorder.until(lambda: type(recorder.seen[-1]) is xproto.KeyReleaseEvent, "shift comes up")
        # Longer than a person who has left would have been waited for, by the service's own clock.
        waited = own.client.post("/v1/wait", json={"event": "person.left", "after": before, "within_ms": 300})
        assert waited.status_code == 408
        for refused in (
            own.act({"type": "type", "text": "x"}),
            own.client.post("/v1/launch", json={"command": ["true"]}),
            own.client.put("/v1/clipboard", json={"text": "x"}),
            own.client.post(f"/v1/windows/{recorder.id}/close", json={}),
        ):
            assert (refused.status_code, refused.json()["error"]) == (423, "stopped")
        # A person who hands over lifts no stop.
        assert own.client.post("/v1/drive", json={"driver": "agent"}).json()["stopped"] is True
        assert own.act({"type": "type", "text": "x"}).status_code == 423
        halting.say(stopped=False)
        assert own.client.get("/v1/drive").json()["stopped"] is False
        own.did({"type": "type", "text": "y"})
        recorder.until(lambda: recorder.text == "y", "one letter")
    own.stop()


def test_wait_of_a_batch_ends_when_the_agent_is_stopped(
    server: XServer, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Service(server.display, Settings(quiet_seconds=60))
    monkeypatch.setattr(halting, "COMPUTER", SimpleNamespace(port=own.port))
    with in_front(server, own) as recorder:
        waits = {"type": "wait", "event": "window.appeared", "match": {"id": 1}, "within_ms": 300_000}
        answers = list[httpx.Response]()
        waiting = threading.Thread(
            target=lambda: answers.append(own.act({"type": "type", "text": "a"}, waits, {"type": "type", "text": "b"}))
        )
        waiting.start()
        recorder.until(lambda: recorder.text == "a", "the first letter")
        before = own.last()
        person.tap()
        own.wait("person.took", after=before)
        assert waiting.is_alive(), "a person who drives ends no wait"
        halting.say(stopped=True)
        waiting.join(PATIENCE / 4)
        assert (answers[0].status_code, answers[0].json()["error"]) == (423, "stopped")
        assert recorder.text == "a"
    own.stop()


def test_batch_waits_for_a_person_to_leave(service: Service, recorder: Recorder, person: Person) -> None:
    after = service.last()
    waits = [{"type": "wait", "event": event, "after": after} for event in ("person.took", "person.left")]
    answers = list[httpx.Response]()

    def act() -> None:
        answers.append(service.act({"type": "type", "text": "a"}, *waits, {"type": "type", "text": "b"}))

    acting = threading.Thread(target=act)
    acting.start()
    recorder.until(lambda: recorder.text == "a", "the first letter")
    person.tap()
    acting.join(PATIENCE)
    assert answers[0].status_code == 200, answers[0].text
    recorder.until(lambda: recorder.text == "ab", "the second letter")


def test_person_who_drags_has_not_left(server: XServer, person: Person) -> None:
    own = Service(server.display, Settings(quiet_seconds=0.1))
    before = own.last()
    person.pointer(300, 300, buttons=1)
    own.wait("person.took", after=before)
    left: dict[str, Any] = {"event": "person.left", "after": before}
    for x in (310, 320):
        person.pointer(x, 300, buttons=1)
        # Longer than a person who has left would have been waited for, by the service's own clock.
        assert own.client.post("/v1/wait", json={**left, "within_ms": 300}).status_code == 408
    assert own.act({"type": "move", "x": 1, "y": 1}).status_code == 409
    person.pointer(320, 300)
    assert own.wait(**left)["by"] == "quiet"
    person.key(PERSONS_KEY, True)
    own.wait("person.took", after=own.last() - 1)
    left["after"] = own.last()
    assert own.client.post("/v1/wait", json={**left, "within_ms": 300}).status_code == 408
    person.key(PERSONS_KEY, False)
    assert own.wait(**left)["by"] == "quiet"
    own.stop()


def test_button_that_never_comes_up_keeps_the_drive_no_longer_than_a_while(server: XServer, person: Person) -> None:
    own = Service(server.display, Settings(quiet_seconds=0.1, hold_seconds=0.5))
    try:
        before = own.last()
        person.pointer(300, 300, buttons=1)
        own.wait("person.took", after=before)
        person.leave()
        assert own.wait("person.left", after=before)["by"] == "quiet"
        pointer = own.part.desk.get().core.QueryPointer(own.part.desk.get().root).reply()
        assert pointer.mask & 0x100, "TigerVNC let the button go by itself"
    finally:
        somebody = Person(server)
        somebody.pointer(300, 300)
        own.wait("screen.settled", quiet_ms=50)
        somebody.leave()
        own.stop()


def test_nobody_but_root_stops_the_agent_or_lets_it_go_on(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = {"x-deskyard-session": "s1", "x-deskyard-scopes": "see,act,files,shell"}
    for stopped in (True, False):
        refused = service.client.post("/v1/drive", json={"stopped": stopped}, headers=gateway)
        assert (refused.status_code, refused.json()["error"]) == (403, "stopped")
    (tmp_path / "tcp").write_text(Path("/proc/net/tcp").read_text().replace("     0        0 ", "  1000        0 "))
    monkeypatch.setattr(drive_routes, "is_roots", lambda request: is_roots(request, tmp_path / "tcp"))
    assert service.client.post("/v1/drive", json={"stopped": True}).status_code == 403
    service.did({"type": "move", "x": 5, "y": 5})


def test_the_agent_may_hand_over_and_may_not_take_back(service: Service, person: Person) -> None:
    gateway = {"x-deskyard-session": "s1", "x-deskyard-scopes": "see,act"}
    assert service.client.post("/v1/drive", json={"driver": "person"}).json()["driver"] == "person"
    refused = service.client.post("/v1/drive", json={"driver": "agent"}, headers=gateway)
    assert refused.status_code == 403
    assert service.client.post("/v1/drive", json={"driver": "agent"}).json()["driver"] == "agent"
