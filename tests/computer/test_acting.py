"""What the agent's hands do, read back by a window that notes it."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import xcffib.xproto as xproto

from deskyard.computer.display import part
from deskyard.computer.display.acting import batch, remembered
from deskyard.computer.display.acting.audience import Audience
from deskyard.computer.display.part import Settings
from deskyard.computer.display.x_server import XConnection
from deskyard.wire.actions import HEADER, unpack
from tests.computer.desktop import PATIENCE, Recorder, Service, XServer, in_front
from tests.support.requirements import need_programs

SHIFT_MASK, CONTROL_MASK = 1, 4


def place(service: Service, recorder: Recorder) -> tuple[int, int]:
    entry = next(entry for entry in service.windows() if entry["id"] == recorder.id)
    return entry["geometry"][0], entry["geometry"][1]


def inside(recorder: Recorder, **more: Any) -> dict[str, Any]:
    return {"space": f"window:{recorder.id}", **more}


def test_a_click_lands_where_it_was_meant(service: Service, recorder: Recorder) -> None:
    x, y = place(service, recorder)
    service.did(
        {"type": "click", "x": x + 20, "y": y + 30}, {"type": "click", **inside(recorder, x=7, y=8, button="right")}
    )
    recorder.until(lambda: recorder.buttons() == [(1, 20, 30), (3, 7, 8)], "two clicks")


def test_zero_is_a_coordinate(service: Service, recorder: Recorder) -> None:
    service.did({"type": "click", **inside(recorder, x=0, y=0)})
    recorder.until(lambda: recorder.buttons() == [(1, 0, 0)], "a click at the corner")
    service.did({"type": "move", "x": 0, "y": 0})
    pointer = recorder.c.core.QueryPointer(recorder.c.root).reply()
    assert (pointer.root_x, pointer.root_y) == (0, 0)


def test_a_click_on_a_scaled_picture_lands_in_the_middle_of_its_pixel(service: Service, recorder: Recorder) -> None:
    shot = service.client.get(
        f"/v1/screen?window={recorder.id}&scale=0.25", headers={"accept": "application/json"}
    ).json()
    assert shot["size"] == [100, 75]
    service.did({"type": "click", "x": 10, "y": 0, "space": shot["space"]})
    recorder.until(lambda: recorder.buttons() == [(1, 42, 2)], "a click")


def test_the_grid_of_a_thousand_covers_the_screen(service: Service, recorder: Recorder) -> None:
    service.did({"type": "move", "x": 999, "y": 500, "space": "norm1000"})
    pointer = recorder.c.core.QueryPointer(recorder.c.root).reply()
    assert (pointer.root_x, pointer.root_y) == (1023, 384)


def test_two_clicks_with_modifiers_are_held_together(service: Service, recorder: Recorder) -> None:
    service.did({"type": "click", **inside(recorder, x=5, y=5), "count": 2, "modifiers": ["ctrl", "shift"]})
    recorder.until(lambda: len(recorder.buttons()) == 2, "two clicks")
    pressed = [event for event in recorder.seen if type(event) is xproto.ButtonPressEvent]
    assert {event.state & (SHIFT_MASK | CONTROL_MASK) for event in pressed} == {SHIFT_MASK | CONTROL_MASK}


def test_the_wheel_turns_both_ways(service: Service, recorder: Recorder) -> None:
    service.did(
        {"type": "scroll", **inside(recorder, x=9, y=9), "dy": 2, "dx": -1}, {"type": "scroll", "dy": -1, "dx": 1}
    )
    recorder.until(lambda: [button for button, _, _ in recorder.buttons()] == [5, 5, 6, 4, 7], "five notches")


def test_a_drag_goes_along_its_path(service: Service, recorder: Recorder) -> None:
    path = [{"x": 10, "y": 10}, {"x": 100, "y": 10}, {"x": 100, "y": 60}]
    service.did({"type": "drag", "path": path, "space": f"window:{recorder.id}"})
    last = (100, 60)

    def moved() -> list[tuple[int, int]]:
        return [(e.event_x, e.event_y) for e in recorder.seen if type(e) is xproto.MotionNotifyEvent]

    recorder.until(lambda: last in moved(), "the end of the drag")
    assert (100, 10) in moved() and len(moved()) > 8


@pytest.mark.parametrize(
    ("keys", "keysym", "state"),
    [
        ("ctrl+c", ord("c"), CONTROL_MASK),
        ("ctrl+shift+T", ord("t"), CONTROL_MASK | SHIFT_MASK),
        ("ctrl++", ord("="), 5),
        ("F5", 0xFFC2, 0),
    ],
)
def test_a_combination_is_pressed_as_one(
    service: Service, recorder: Recorder, keys: str, keysym: int, state: int
) -> None:
    service.did({"type": "key", "keys": keys})

    def found() -> list[tuple[int, int]]:
        return [(recorder.map[e.detail][0], e.state) for e in recorder.seen if type(e) is xproto.KeyPressEvent]

    recorder.until(lambda: (keysym, state) in found(), keys)


def test_typed_text_arrives_as_it_was_meant(service: Service, recorder: Recorder) -> None:
    text = "Hello, World! äöüß € Ωμέγα привет こんにちは 한국어 🎉🚀 {[|]}~^`\n" * 3
    service.did({"type": "type", "text": text})
    recorder.until(lambda: len(recorder.text) >= len(text), "the text")
    assert recorder.text == text


def test_the_buttons_for_back_and_forward_are_pressed(service: Service, recorder: Recorder) -> None:
    service.did({"type": "click", **inside(recorder, x=4, y=5, button="back")}, {"type": "click", "button": "forward"})
    recorder.until(lambda: recorder.buttons() == [(8, 4, 5), (9, 4, 5)], "two buttons")


def test_keys_are_held_for_as_long_as_is_said(service: Service, recorder: Recorder) -> None:
    service.did({"type": "hold", "keys": "ctrl+a", "ms": 120})

    def keys() -> list[Any]:
        return [e for e in recorder.seen if isinstance(e, xproto.KeyPressEvent | xproto.KeyReleaseEvent)]

    recorder.until(lambda: len(keys()) == 4, "two keys, down and up")
    assert [type(event) is xproto.KeyReleaseEvent for event in keys()] == [False, False, True, True]
    assert [event.detail for event in keys()[2:]] == [event.detail for event in keys()[1::-1]]
    # By the clock of the X server, in milliseconds; on a busy machine it may read the press late, and so stamp it late.
    assert keys()[2].time - keys()[1].time >= 60


def test_a_text_is_pasted_by_the_clipboard(service: Service, server: XServer) -> None:
    need_programs("mousepad", "/usr/libexec/at-spi-bus-launcher")
    before = service.last()
    process = server.start("mousepad", "--disable-server")
    window = service.wait("window.appeared", match={"class": "mousepad"}, after=before)
    service.wait("app.ready", match={"id": window["id"]})
    service.did({"type": "paste", "text": "Grüße, 世界\nzweite"})
    asked = {"role": "text", "window": window["id"]}
    (text,) = service.client.post("/v1/accessibility/find", json=asked).json()["nodes"]
    assert text["text"] == "Grüße, 世界\nzweite"
    before = service.last()
    os.killpg(process.pid, signal.SIGKILL)
    service.wait("window.closed", match={"id": window["id"]}, after=before)


def test_a_paste_that_no_program_takes_is_said_to_be_in_vain(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "PASTE_SECONDS", 0.05)
    answer = service.act({"type": "paste", "text": "nobody wants it"})
    assert (answer.status_code, answer.json()["error"]) == (409, "paste")


def test_a_paste_waits_for_the_program_in_front_whoever_else_reads_the_clipboard(
    service: Service, server: XServer, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_programs("xclip")
    monkeypatch.setattr(part, "PASTE_SECONDS", PATIENCE)
    text, before, answers = "for the program in front", service.last(), list[httpx.Response]()
    pasting = threading.Thread(target=lambda: answers.append(service.act({"type": "paste", "text": text})))
    pasting.start()
    service.wait("clipboard.changed", after=before, match={"by": "agent"})
    another = ["xclip", "-selection", "clipboard", "-out"]
    read = subprocess.run(another, env=server.environment, capture_output=True, timeout=PATIENCE, check=True)
    assert read.stdout.decode() == text
    service.last()
    assert pasting.is_alive(), "one that keeps what was copied reads it, too"
    with contextlib.closing(XConnection(server.display)) as c:  # of the same process as the window in front
        window = c.x.generate_id()
        c.core.CreateWindow(0, window, c.root, 0, 0, 1, 1, 0, 0, 0, 0, [])
        c.core.ConvertSelection(window, c.atom("CLIPBOARD"), c.atom("UTF8_STRING"), c.atom("TAKEN"), 0)
        c.x.flush()
        pasting.join(PATIENCE)
        assert c.text(window, "TAKEN") == text
    assert answers[0].status_code == 200, answers[0].text


def test_what_is_held_is_let_go_after_a_while_without_an_action_in_the_opposite_order(server: XServer) -> None:
    own = Service(server.display, Settings(hold_seconds=0.2))
    with in_front(server, own) as recorder:
        own.did({"type": "down", "key": "ctrl"}, {"type": "down", "key": "shift"})

        def up() -> list[Any]:
            return [e.detail for e in recorder.seen if type(e) is xproto.KeyReleaseEvent]

        recorder.until(lambda: len(up()) == 2, "both come up")
        down = [e.detail for e in recorder.seen if type(e) is xproto.KeyPressEvent]
        assert up() == down[::-1] and own.part.drive.held == []
    own.stop()


def test_a_batch_stops_at_the_first_failure_and_lets_go(service: Service, recorder: Recorder) -> None:
    service.did({"type": "move", **inside(recorder, x=1, y=1)})
    answer = service.act(
        {"type": "down", "key": "ctrl"},
        {"type": "type", "text": "abc"},
        {"type": "click", **inside(recorder, x=1, y=1)},
    )
    assert answer.status_code == 400
    said = answer.json()
    assert [result["ok"] for result in said["results"]] == [True, False]
    assert said["error"] == "actions[1].text"
    assert service.part.drive.held == []
    assert recorder.text == "" and recorder.buttons() == []


@contextmanager
def leaving(service: Service, *actions: dict[str, Any], **more: Any) -> Iterator[None]:
    """Ask for a batch, by a client that leaves at the end of the block."""
    body = json.dumps({"actions": actions, **more}).encode()
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(b"POST /v1/act HTTP/1.1\r\nHost: desk\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        yield


def shift_goes(recorder: Recorder, way: str) -> None:
    kind = xproto.KeyPressEvent if way == "down" else xproto.KeyReleaseEvent
    recorder.until(lambda: any(type(e) is kind for e in recorder.seen), f"the key goes {way}")


NEVER = {"type": "wait", "event": "window.appeared", "match": {"id": 1}, "within_ms": 300_000}


@pytest.mark.parametrize("wait", [{"type": "wait", "ms": 30_000}, NEVER], ids=["time", "event"])
def test_what_is_held_is_let_go_when_the_client_leaves(
    service: Service, recorder: Recorder, wait: dict[str, Any]
) -> None:
    with leaving(service, {"type": "down", "key": "shift"}, wait):
        shift_goes(recorder, "down")
    # The hands are free again, in far less time than was to be waited.
    service.did({"type": "move", "x": 1, "y": 1})
    shift_goes(recorder, "up")
    assert service.part.drive.held == []


def test_batch_with_an_id_is_finished_for_a_client_that_comes_back(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, leave = threading.Event(), Audience.leave

    def leaves(audience: Audience) -> None:
        leave(audience)
        left.set()

    monkeypatch.setattr(Audience, "leave", leaves)
    after = service.last()
    titled = {"type": "wait", "event": "window.title", "match": {"title": "go on"}, "after": after}
    actions: list[dict[str, Any]] = [{"type": "type", "text": "a"}, titled, {"type": "type", "text": "b"}]
    with leaving(service, *actions, id="lost-1"):
        recorder.until(lambda: recorder.text == "a", "the first letter")
    assert left.wait(PATIENCE)
    answers = list[httpx.Response]()
    again = threading.Thread(target=lambda: answers.append(service.act(*actions, id="lost-1")))
    again.start()
    recorder.title("go on")
    again.join(PATIENCE)
    assert answers[0].status_code == 200 and [result["ok"] for result in answers[0].json()["results"]] == [True] * 3
    assert [action["kind"] for action in claims(answers[0])["actions"]] == ["type", "wait", "type"], "no other answer"
    assert HEADER not in service.act(*actions, id="lost-1").headers
    recorder.until(lambda: recorder.text == "ab", "each letter once")


def test_batch_with_an_id_goes_no_further_when_nobody_comes_back(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "AWAY_SECONDS", 0.05)
    actions: list[dict[str, Any]] = [{"type": "down", "key": "shift"}, NEVER, {"type": "type", "text": "x"}]
    with leaving(service, *actions, id="lost-2"):
        shift_goes(recorder, "down")
    shift_goes(recorder, "up")
    late = service.act(*actions, id="lost-2")
    assert (late.status_code, late.json()["error"]) == (409, "connection")
    assert [result["ok"] for result in late.json()["results"]] == [True, False]
    assert recorder.text == "" and service.part.drive.held == []


def test_what_others_send_pushes_out_no_id_of_a_session(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "MOST_IDS", 2)

    def types(session: str, text: str, id: str) -> None:
        headers = {"x-deskyard-session": session, "x-deskyard-scopes": "act"}
        asked = {"actions": [{"type": "type", "text": text}], "id": id}
        answer = service.client.post("/v1/act", json=asked, headers=headers)
        assert answer.status_code == 200, answer.text

    types("m1", "a", "first")
    for id in ("first", "second", "third"):
        types("m2", "b", id)
    types("m1", "a", "first")
    types("m2", "b", "third")
    recorder.until(lambda: len(recorder.text) == 4, "four letters")
    types("m2", "b", "first")
    types("m2", "c", "last")
    recorder.until(lambda: recorder.text.endswith("c"), "the last letter")
    assert recorder.text == "abbbbc", "of each session its newest are remembered, and no more"


@pytest.mark.parametrize(
    ("place", "status", "field"),
    [
        ({"x": 1024, "y": 0}, 400, "actions[0].x"),
        ({"x": 0, "y": 768}, 400, "actions[0].y"),
        ({"x": -1, "y": 0}, 400, "actions[0].x"),
        ({"x": 1001, "y": 0, "space": "norm1000"}, 400, "actions[0].x"),
        ({"x": 0, "y": 0, "space": "shot:000000000000"}, 410, "actions[0].space"),
        ({"x": 0, "y": 0, "space": "window:1"}, 404, "actions[0].space"),
    ],
)
def test_a_place_outside_its_space_is_refused_and_nothing_moves(
    service: Service, recorder: Recorder, place: dict[str, Any], status: int, field: str
) -> None:
    service.did({"type": "move", "x": 10, "y": 11})
    refused = service.act({"type": "move", **place}, {"type": "click"})
    assert (refused.status_code, refused.json()["error"]) == (status, field)
    pointer = recorder.c.core.QueryPointer(recorder.c.root).reply()
    assert (pointer.root_x, pointer.root_y) == (10, 11)


@pytest.mark.parametrize(
    ("wanted", "field", "status"),
    [
        ({"region": [-1, 0, 100, 100]}, "region", 400),
        ({"region": [0, 0, 99999, 10]}, "return.region", 400),
        ({"region": [1000, 0, 100, 100]}, "region", 400),
        ({"window": 1}, "window", 404),
    ],
)
def test_a_picture_that_cannot_be_taken_is_refused_before_anything_is_done(
    service: Service, recorder: Recorder, wanted: dict[str, Any], field: str, status: int
) -> None:
    answer = service.act({"type": "type", "text": "x"}, **{"return": wanted})
    assert (answer.status_code, answer.json()["error"]) == (status, field)
    service.did({"type": "type", "text": "y"})
    recorder.until(lambda: "y" in recorder.text, "the second text")
    assert recorder.text == "y"


def test_actions_after_which_the_window_of_their_picture_is_gone_are_answered_as_done(
    server: XServer, service: Service, recorder: Recorder
) -> None:
    before = service.last()
    other = Recorder(server.display)
    service.wait("window.appeared", match={"id": other.id}, after=before)
    service.client.post(f"/v1/windows/{recorder.id}/focus")
    service.wait("window.focus", match={"id": recorder.id}, after=before)

    def close() -> None:
        recorder.until(lambda: recorder.text == "q", "the text")
        other.close()

    closing = threading.Thread(target=close)
    closing.start()
    gone = {"type": "wait", "event": "window.closed", "match": {"id": other.id}, "after": service.last()}
    answer = service.act({"type": "type", "text": "q"}, gone, **{"return": {"window": other.id}})
    closing.join()
    said = answer.json()
    assert (answer.status_code, said["ok"], said["picture"]) == (200, False, None), said
    assert [result["ok"] for result in said["results"]] == [True, True]
    assert (said["unseen"]["error"], said["unseen"]["value"]) == ("window", str(other.id))
    assert said["unseen"]["remedy"]


def test_a_repeat_with_the_same_id_does_nothing_again(service: Service, recorder: Recorder) -> None:
    first = service.did({"type": "type", "text": "x"}, id="again-1")
    second = service.did({"type": "type", "text": "x"}, id="again-1")
    assert first["results"] == second["results"]
    service.did({"type": "type", "text": "y"})
    recorder.until(lambda: recorder.text.endswith("y"), "the last letter")
    assert recorder.text == "xy"
    other = service.act({"type": "type", "text": "z"}, id="again-1")
    assert (other.status_code, other.json()["error"]) == (409, "id")


def test_what_is_done_is_recorded_without_its_text(service: Service, recorder: Recorder) -> None:
    service.notes.entries.clear()
    service.did({"type": "type", "text": "secret word"}, {"type": "click", **inside(recorder, x=3, y=4)})
    typed, clicked, batch = service.notes.entries
    assert "secret" not in str(service.notes.entries)
    assert len(typed["text_sha256"]) == 64 and typed["window"] == recorder.id
    assert clicked["at"] == [[3.0, 4.0, f"window:{recorder.id}"]]
    assert len(batch["frame_before"]) == len(batch["frame_after"]) == 64


def test_each_action_is_recorded_with_the_window_in_front_then(
    server: XServer, service: Service, recorder: Recorder
) -> None:
    def moved_before() -> tuple[int, str]:
        service.notes.entries.clear()
        service.did({"type": "move", "x": 1, "y": 1})
        return service.notes.entries[0]["window"], service.notes.entries[0]["class"]

    def called(window: Recorder, name: bytes) -> None:
        properties = (0, window.id, xproto.Atom.WM_CLASS, xproto.Atom.STRING, 8, len(name), name)
        window.c.core.ChangeProperty(*properties, is_checked=True).check()

    called(recorder, b"x\0First\0")
    assert moved_before() == moved_before() == (recorder.id, "First")
    with in_front(server, service) as other:
        called(other, b"x\0Second\0")
        assert moved_before() == (other.id, "Second")
        called(other, b"x\0Third\0")
        assert moved_before() == (other.id, "Third")
        before = service.last()
        service.client.post(f"/v1/windows/{recorder.id}/focus")
        service.wait("window.focus", match={"id": recorder.id}, after=before)
        assert moved_before() == (recorder.id, "First")
        service.client.post(f"/v1/windows/{other.id}/focus")
        service.wait("window.focus", match={"id": other.id}, after=before)
        moved_before()
    # The one that was in front the last time is gone.
    assert moved_before()[0] != other.id


def claims(answer: httpx.Response) -> dict[str, Any]:
    said = unpack(answer.headers[HEADER])
    assert said is not None
    return said


def test_an_answer_claims_what_was_done_for_the_audit(service: Service, recorder: Recorder) -> None:
    called = b"recorder\0Rec\x1b order\0"
    recorder.c.core.ChangeProperty(
        0, recorder.id, xproto.Atom.WM_CLASS, xproto.Atom.STRING, 8, len(called), called, is_checked=True
    ).check()
    answer = service.act({"type": "type", "text": "secret word"}, {"type": "click", **inside(recorder, x=3, y=4)})
    said = claims(answer)
    typed, clicked = said["actions"]
    assert typed["text_sha256"] == hashlib.sha256(b"secret word").hexdigest()
    assert typed["kind"] == "type" and typed["ok"] and typed["scope"] == "act" and typed["window"] == recorder.id
    assert typed["class"] == "Rec__order", "a name of the desktop's own, as a plain word"
    assert clicked["at"] == [[3.0, 4.0, f"window:{recorder.id}"]]
    assert len(said["frame_before"]) == len(said["frame_after"]) == 64
    recorder.until(lambda: recorder.buttons() == [(1, 3, 4)], "the click")


def test_a_repeat_and_a_refusal_claim_nothing_and_a_failure_claims_what_failed(
    service: Service, recorder: Recorder
) -> None:
    assert HEADER in service.act({"type": "move", "x": 1, "y": 1}, id="claimed-1").headers
    assert HEADER not in service.act({"type": "move", "x": 1, "y": 1}, id="claimed-1").headers
    assert HEADER not in service.act({"type": "move", "x": 99999, "y": 1}).headers
    assert HEADER not in service.client.get("/v1/windows").headers
    missed = service.act({"type": "wait", "event": "window.appeared", "match": {"id": 1}, "within_ms": 1})
    [failed] = claims(missed)["actions"]
    assert (failed["kind"], failed["ok"]) == ("wait", False) and failed["error"]


def test_windows_clipboard_files_and_commands_are_claimed_by_hash(service: Service, recorder: Recorder) -> None:
    client = service.client
    [moved] = claims(client.post(f"/v1/windows/{recorder.id}/move", json={"x": 100, "y": 100}))["actions"]
    assert moved == {"kind": "window.move", "scope": "act", "window": recorder.id}
    [put] = claims(client.put("/v1/clipboard", json={"text": "secret word"}))["actions"]
    assert put["text_sha256"] == hashlib.sha256(b"secret word").hexdigest()
    written = client.put("/v1/files/content", params={"path": "~/claimed"}, content=b"secret word")
    path = written.json()["path"]
    assert claims(written)["actions"] == [
        {"kind": "files.write", "scope": "files", "path_sha256": hashlib.sha256(path.encode()).hexdigest()}
    ]
    [ran] = claims(client.post("/v1/processes/run", json={"command": ["true", "x"]}))["actions"]
    assert ran["command_sha256"] == hashlib.sha256(b"true\0x").hexdigest() and ran["scope"] == "shell"
