"""What a session of the gateway holds down goes with the session, and with nothing else that is down."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from xcffib import xproto

from tests.computer.desktop import PATIENCE, PERSONS_KEY, Person, Recorder, Service
from tests.computer.test_privacy import GATEWAY, Privacy

SHIFT, CONTROL, BUTTON = 0x1, 0x4, 0x100
LONG_AGO = 1e6


@pytest.fixture
def gateway(service: Service) -> Iterator[httpx.Client]:
    """The gateway itself; nothing is down afterwards."""
    with httpx.Client(
        base_url=service.url, timeout=PATIENCE, transport=httpx.HTTPTransport(verify=False, local_address=GATEWAY)
    ) as client:
        yield client
        say(client, gateway_seconds=0)
        service.did({"type": "up", "key": "ctrl"}, {"type": "up", "key": "shift"}, {"type": "up"})
        assert service.part.drive.held == []


def say(gateway: httpx.Client, *ended: str, gateway_seconds: float = LONG_AGO) -> int:
    """Say which sessions are over; how many keys and buttons came up by that."""
    answer = gateway.put("/v1/sessions", json={"ended": ended, "gateway_seconds": gateway_seconds})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["let_go"])


def of(session: str) -> dict[str, str]:
    return {"x-deskyard-session": session, "x-deskyard-scopes": "see,act"}


def act(service: Service, session: str, *actions: dict[str, Any]) -> httpx.Response:
    return service.client.post("/v1/act", json={"actions": actions}, headers=of(session))


def holds(service: Service, session: str, *actions: dict[str, Any]) -> None:
    """Have a session press something, in a batch that is done."""
    answer = act(service, session, *({"type": "down", **action} for action in actions))
    assert answer.status_code == 200, answer.text


def down(recorder: Recorder) -> int:
    """The modifiers and buttons that are down, as the X server says it."""
    mask: int = recorder.c.core.QueryPointer(recorder.c.root).reply().mask
    return mask & (SHIFT | CONTROL | BUTTON)


def released(recorder: Recorder) -> list[int]:
    return [recorder.map[e.detail][0] for e in recorder.seen if type(e) is xproto.KeyReleaseEvent]


def test_what_an_ended_session_holds_is_let_go_the_last_first(
    service: Service, recorder: Recorder, gateway: httpx.Client
) -> None:
    holds(service, "a1", {"key": "ctrl"}, {"key": "shift"}, {"x": 5, "y": 5, "space": f"window:{recorder.id}"})
    assert down(recorder) == SHIFT | CONTROL | BUTTON
    assert say(gateway, "a1") == 3
    recorder.until(lambda: len(released(recorder)) == 2, "both keys come up")
    assert released(recorder) == [0xFFE1, 0xFFE3]
    # A window manager may keep the button for a moment.
    recorder.until(lambda: any(type(e) is xproto.ButtonReleaseEvent for e in recorder.seen), "the button comes up")
    assert down(recorder) == 0 and service.part.drive.held == []
    assert service.part.drive.driver == "agent", "no person came by that"


def test_what_others_hold_stays_down(service: Service, recorder: Recorder, gateway: httpx.Client) -> None:
    holds(service, "b1", {"key": "shift"})
    holds(service, "b2", {"key": "ctrl"})
    assert say(gateway, "b3", "b1") == 1
    assert down(recorder) == CONTROL
    service.did({"type": "down", "key": "shift"})
    assert say(gateway, "b2") == 1
    assert down(recorder) == SHIFT, "a program of the desktop itself has no session that could end"


def test_key_that_two_sessions_hold_stays_down_for_the_other(
    service: Service, recorder: Recorder, gateway: httpx.Client
) -> None:
    holds(service, "c1", {"key": "ctrl"})
    holds(service, "c2", {"key": "ctrl"})
    assert act(service, "c3", {"type": "key", "keys": "ctrl+c"}).status_code == 200
    assert down(recorder) == CONTROL
    assert say(gateway, "c1") == 0
    assert down(recorder) == CONTROL
    assert say(gateway, "c2") == 1
    assert down(recorder) == 0


def test_up_of_a_session_that_holds_nothing_lets_go_what_another_holds(
    service: Service, recorder: Recorder, gateway: httpx.Client
) -> None:
    holds(service, "k1", {"key": "ctrl"})
    refused = act(service, "k2", {"type": "type", "text": "x"})
    assert (refused.status_code, "let them go" in refused.json()["remedy"]) == (400, True)
    assert act(service, "k2", {"type": "up", "key": "ctrl"}, {"type": "type", "text": "x"}).status_code == 200
    recorder.until(lambda: recorder.text == "x", "the letter")
    assert down(recorder) == 0


def test_batch_that_fails_lets_go_what_its_own_session_holds(
    service: Service, recorder: Recorder, gateway: httpx.Client
) -> None:
    holds(service, "d1", {"key": "ctrl"})
    failed = act(service, "d2", {"type": "down", "key": "shift"}, {"type": "type", "text": "abc"})
    assert failed.status_code == 400
    assert down(recorder) == CONTROL
    assert say(gateway, "d1") == 1


def test_nothing_more_is_done_for_an_ended_session(service: Service, recorder: Recorder, gateway: httpx.Client) -> None:
    answers: list[httpx.Response] = []
    typing = threading.Thread(target=lambda: answers.append(act(service, "e1", {"type": "type", "text": "ab" * 9999})))
    typing.start()
    recorder.until(lambda: len(recorder.text) > 20, "the first letters")
    say(gateway, "e1")
    typing.join(PATIENCE)
    assert (answers[0].status_code, answers[0].json()["error"]) == (401, "session")
    assert len(recorder.text) < 19_998
    for action in ({"type": "down", "key": "shift"}, {"type": "move", "x": 1, "y": 1}):
        refused = act(service, "e1", action)
        assert (refused.status_code, refused.json()["error"]) == (401, "session")
    assert down(recorder) == 0
    holds(service, "e2", {"key": "shift"})
    assert down(recorder) == SHIFT, "another session goes on"


@pytest.mark.parametrize(
    "wait",
    [{"ms": 30_000}, {"event": "window.appeared", "match": {"id": 1}, "within_ms": 300_000}],
    ids=["time", "event"],
)
def test_wait_of_a_batch_ends_with_its_session(
    service: Service, recorder: Recorder, gateway: httpx.Client, wait: dict[str, Any]
) -> None:
    session = f"l{len(wait)}"
    batch = ({"type": "down", "key": "shift"}, {"type": "wait", **wait})
    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(act(service, session, *batch)))
    waiting.start()
    recorder.until(lambda: any(type(e) is xproto.KeyPressEvent for e in recorder.seen), "the key goes down")
    assert say(gateway, session) == 1
    waiting.join(PATIENCE / 4)
    assert (answers[0].status_code, answers[0].json()["error"]) == (401, "session")
    assert down(recorder) == 0


def test_gateway_that_began_anew_lets_go_what_was_pressed_before(
    service: Service, recorder: Recorder, gateway: httpx.Client
) -> None:
    holds(service, "f1", {"key": "ctrl"})
    service.did({"type": "down", "key": "shift"})
    assert say(gateway) == 0, "it ran when the key was pressed"
    assert down(recorder) == CONTROL | SHIFT
    assert say(gateway, gateway_seconds=0) == 1
    assert down(recorder) == SHIFT, "what the desktop itself holds came by no gateway"
    holds(service, "f1", {"key": "ctrl"})
    assert down(recorder) == CONTROL | SHIFT, "the session is not over"


def test_person_keeps_what_they_press_and_the_drive(
    service: Service, recorder: Recorder, gateway: httpx.Client, person: Person
) -> None:
    holds(service, "g1", {"key": "ctrl"})
    before = service.last()
    person.key(PERSONS_KEY, True)
    service.wait("person.took", after=before)
    assert down(recorder) == SHIFT, "the agent's is up as soon as it is told that the person took over"
    assert say(gateway, "g1") == 0
    assert down(recorder) == SHIFT
    assert service.part.drive.driver == "person"
    person.key(PERSONS_KEY, False)


def test_word_is_taken_while_the_screen_is_hidden(service: Service, gateway: httpx.Client) -> None:
    privacy = Privacy(service)
    try:
        privacy.say(True)
        assert say(gateway, "h1") == 0
    finally:
        privacy.close()
        service.client.post("/v1/drive", json={"driver": "agent"})
    assert act(service, "h1", {"type": "move", "x": 1, "y": 1}).status_code == 401


def test_nobody_but_the_gateway_says_who_is_over(service: Service, recorder: Recorder, gateway: httpx.Client) -> None:
    holds(service, "i1", {"key": "shift"})
    word = {"ended": ["i1"], "gateway_seconds": 0}
    for headers in ({}, of("i2"), of("i1")):
        refused = service.client.put("/v1/sessions", json=word, headers=headers)
        assert (refused.status_code, refused.json()["error"]) == (403, "sessions")
    assert gateway.put("/v1/sessions", json=word, headers=of("i2")).status_code == 403
    assert down(recorder) == SHIFT


@pytest.mark.parametrize(
    ("word", "field"),
    [
        ({"ended": "j1", "gateway_seconds": 1}, "ended"),
        ({"ended": ["j1"]}, "gateway_seconds"),
        ({"ended": ["j1", 7], "gateway_seconds": 1}, "ended[1]"),
        ({"ended": [""], "gateway_seconds": 1}, "ended[0]"),
        ({"ended": ["j1"] * 501, "gateway_seconds": 1}, "ended"),
        ({"ended": ["j1"], "gateway_seconds": -1}, "gateway_seconds"),
        ({"ended": ["j1"], "gateway_seconds": 1, "also": 1}, "also"),
    ],
)
def test_word_that_is_wrong_ends_nobody(
    service: Service, gateway: httpx.Client, word: dict[str, Any], field: str
) -> None:
    refused = gateway.put("/v1/sessions", json=word)
    assert (refused.status_code, refused.json()["error"]) == (400, field)
    assert act(service, "j1", {"type": "move", "x": 1, "y": 1}).status_code == 200
