"""While a person wants privacy, the service shows nothing of the screen: what asks is refused, what is open is cut."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from deskyard.computer.display.acting import drive_routes
from deskyard.computer.display.events import Armed, Wait
from deskyard.computer.display.x_server import XConnection
from deskyard.computer.streaming.stream import Stream
from deskyard.computer.streaming.studio import Studio
from tests.computer.desktop import PATIENCE, Recorder, Service
from tests.computer.test_recording import near, recorded, shown, state, written_until
from tests.computer.test_streams import ASK_ALL, Plain, made, paint, screen

# A neighbour of loopback stands for the gateway, as which no program of a desktop can come (Peers).
GATEWAY = "127.0.0.2"
PROGRAM = {"x-deskyard-session": "s1", "x-deskyard-scopes": "see,act,files,shell"}
HIDDEN = [
    ("GET", "/v1/screen"), ("GET", "/v1/windows"), ("GET", "/v1/clipboard"), ("PUT", "/v1/clipboard"),
    ("GET", "/v1/accessibility"), ("POST", "/v1/accessibility/find"), ("POST", "/v1/act"), ("GET", "/v1/streams"),
    ("POST", "/v1/streams"), ("POST", "/v1/launch"), ("GET", "/v1/applications"), ("GET", "/v1/recordings"),
    ("GET", "/v1/devtools"), ("GET", "/v1/not-thought-of-yet"),
]  # fmt: skip


class Privacy:
    """The gateway's word to the service."""

    def __init__(self, service: Service) -> None:
        transport = httpx.HTTPTransport(verify=False, local_address=GATEWAY)
        self._client = httpx.Client(base_url=service.url, timeout=PATIENCE, transport=transport)

    def say(self, on: bool, seconds: int = 60) -> None:
        answer = self._client.put("/v1/privacy", json={"on": on, "seconds": seconds})
        assert (answer.status_code, answer.json()) == (200, {"on": on}), answer.text

    def close(self) -> None:
        self.say(False)
        self._client.close()


@pytest.fixture
def privacy(service: Service) -> Iterator[Privacy]:
    """Privacy that is off, before and after; and nobody drives afterwards."""
    word = Privacy(service)
    yield word
    word.close()
    if service.part.drive.driver == "person":
        service.client.post("/v1/drive", json={"driver": "agent"})


@pytest.fixture
def armed(service: Service, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when somebody begins to wait for an event."""
    begun, arm = threading.Event(), service.part.log.arm

    async def arming(wait: Wait) -> Armed:
        begun.set()
        return await arm(wait)

    monkeypatch.setattr(service.part.log, "arm", arming)
    return begun


@pytest.mark.parametrize("headers", [{}, PROGRAM], ids=["inside", "gateway"])
def test_nothing_of_the_screen_is_answered_in_private(
    service: Service, privacy: Privacy, headers: dict[str, str]
) -> None:
    privacy.say(True)
    for method, path in HIDDEN:
        answer = service.client.request(method, path, headers=headers, json={} if method != "GET" else None)
        assert answer.status_code == 423, path
        assert answer.json()["error"] == "privacy"
        assert "privacy.off" in answer.json()["remedy"]
    for path in ("/healthz", "/v1/processes", "/v1/drive", "/v1/privacy"):
        assert service.client.get(path, headers=headers).status_code == 200, path
    privacy.say(False)
    assert service.client.get("/v1/screen", headers=headers).status_code == 200
    assert service.client.get("/v1/windows", headers=headers).status_code == 200


def test_place_of_the_pointer_is_hidden_in_private(service: Service, privacy: Privacy) -> None:
    service.did({"type": "move", "x": 7, "y": 9})
    privacy.say(True)
    for headers in ({}, PROGRAM):
        assert service.client.get("/v1/drive", headers=headers).json()["pointer"] is None
    privacy.say(False)
    assert service.client.get("/v1/drive").json()["pointer"] == {"x": 7, "y": 9}


def test_place_of_the_pointer_that_was_seen_as_privacy_began_is_not_told(
    service: Service, privacy: Privacy, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    async def take() -> None:
        begun.set()

    def looking(connection: XConnection) -> tuple[int, int]:
        assert service.part._loop is not None
        asyncio.run_coroutine_threadsafe(service.part.privacy.begin(60), service.part._loop)
        assert begun.wait(PATIENCE)
        return 7, 9

    monkeypatch.setattr(drive_routes, "ANSWER_SECONDS", PATIENCE)
    monkeypatch.setattr(service.part.privacy, "_take", take)
    monkeypatch.setattr(XConnection, "pointer", looking)
    assert service.client.get("/v1/drive").json()["pointer"] is None
    assert begun.is_set()


def test_nothing_drawn_in_privacy_is_seen_in_a_stream_afterwards(
    service: Service, privacy: Privacy, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint(recorder, 0x224466)
    streams = [made(service, window=recorder.id)]
    taken, take = list[Stream](), Studio._take

    def taking(studio: Studio, c: XConnection, stream: Stream) -> None:
        taken.append(stream)
        take(studio, c, stream)

    monkeypatch.setattr(Studio, "_take", taking)
    privacy.say(True)
    paint(recorder, 0xAA0000)
    paint(recorder, 0xBB0000)
    assert taken == [], "nobody looks"
    privacy.say(False)
    paint(recorder, 0x00CC00)
    streams.append(made(service, window=recorder.id))
    for stream in streams:
        viewer = Plain(service, stream)
        viewer.line.send(ASK_ALL)
        viewer.update()
        assert viewer.pixels[:3] == b"\x00\xcc\x00"
        viewer.line.close()
        assert service.client.delete(stream["path"]).status_code == 200


def test_gateway_alone_says_when_it_is_private(service: Service, privacy: Privacy) -> None:
    for headers in ({}, PROGRAM):
        assert service.client.put("/v1/privacy", json={"on": True}, headers=headers).status_code == 403
    assert service.client.get("/v1/privacy").json() == {"on": False}
    privacy.say(True)
    for headers in ({}, PROGRAM):
        assert service.client.put("/v1/privacy", json={"on": False}, headers=headers).status_code == 403
    assert service.client.get("/v1/privacy").json() == {"on": True}


def test_wait_tells_the_end_and_nothing_of_the_screen(service: Service, privacy: Privacy) -> None:
    before = service.last()
    privacy.say(True)
    assert service.wait("privacy.on", after=before)["event"] == "privacy.on"
    for kind in ("window.title", "screen.settled", "region.changed", "app.ready", "clipboard.changed"):
        answer = service.client.post("/v1/wait", json={"event": kind})
        assert (answer.status_code, answer.json()["error"]) == (423, "privacy"), kind
    heard: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: heard.append(service.wait("privacy.off", within_ms=60_000)))
    waiting.start()
    privacy.say(False)
    waiting.join(PATIENCE)
    assert [event["event"] for event in heard] == ["privacy.off"]
    assert service.wait("privacy.off", within_ms=1)["event"] == "privacy.off", "who comes late need not wait"


@pytest.mark.parametrize("kind", ["window.title", "screen.settled", "app.ready"])
def test_wait_under_way_is_refused_as_privacy_begins(
    service: Service, privacy: Privacy, armed: threading.Event, kind: str
) -> None:
    answers: list[httpx.Response] = []
    asked = {"event": kind, "within_ms": 60_000, "quiet_ms": 60_000, "match": {"id": 1, "class": "nobody"}}
    waiting = threading.Thread(target=lambda: answers.append(service.client.post("/v1/wait", json=asked)))
    waiting.start()
    assert armed.wait(PATIENCE)
    privacy.say(True)
    waiting.join(PATIENCE)
    assert (answers[0].status_code, answers[0].json()["error"]) == (423, "privacy")


def test_events_of_the_screen_are_never_told(service: Service, privacy: Privacy, recorder: Recorder) -> None:
    with connect(f"{service.url.replace('http', 'ws')}/v1/events?after={service.last()}", proxy=None) as socket:
        privacy.say(True)
        recorder.title("my bank")
        recorder.c.core.GetInputFocus().reply()
        service.part._listening().call(lambda c: None).result(PATIENCE)
        privacy.say(False)
        recorder.title("the news")
        events: list[dict[str, Any]] = []
        while not events or events[-1].get("title") != "the news":
            events.append(json.loads(socket.recv(PATIENCE)))
    kinds = [event["event"] for event in events]
    assert kinds.index("privacy.on") < kinds.index("privacy.off") < kinds.index("window.title")
    assert "my bank" not in json.dumps(events)
    assert events[kinds.index("privacy.off")]["by"] == "off"


def test_streams_are_cut(service: Service, privacy: Privacy) -> None:
    stream = service.client.post("/v1/streams", json={}).json()
    address = f"{service.url.replace('http', 'ws')}{stream['path']}"
    with connect(address, subprotocols=["binary"], proxy=None) as socket:  # type: ignore[list-item]
        assert socket.recv(PATIENCE) == b"RFB 003.008\n"
        privacy.say(True)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4423
        with pytest.raises(InvalidStatus) as refused, connect(address, proxy=None):
            pass
        assert refused.value.response.status_code == 423
    privacy.say(False)
    service.client.delete(stream["path"])


def test_recording_has_nothing_of_what_was_private(service: Service, privacy: Privacy, recorder: Recorder) -> None:
    with recorded(service):
        paint(recorder, 0x3366CC)
        expected = screen(service)
        url = f"/v1/recordings/{state(service)['recordings'][-1]['id']}/frames"
        written_until(service, lambda _: near(shown(service.client.get(url).content), expected))
        last = service.last()
        privacy.say(on=True)
        # It stays there: a recording that went on would end with it.
        paint(recorder, 0xFFCC00)
        # The first since then: those of other tests are in the record, too.
        last = service.wait("privacy.on", after=last)["seq"]
        privacy.say(on=False)
        service.wait("recording.started", after=last)
        assert [entry["open"] for entry in state(service)["recordings"]] == [False, True]
        assert near(shown(service.client.get(url).content), expected)
        assert not near(screen(service), expected)


def test_batch_under_way_stops_and_its_answer_tells_nothing(
    service: Service, privacy: Privacy, armed: threading.Event
) -> None:
    answers: list[httpx.Response] = []

    def act() -> None:
        wait = {"type": "wait", "event": "window.title", "match": {"title": "no such title"}}
        answers.append(service.act(wait, {"type": "move", "x": 3, "y": 3}, **{"return": {"format": "png"}}))

    acting = threading.Thread(target=act)
    acting.start()
    assert armed.wait(PATIENCE)
    privacy.say(True)
    acting.join(PATIENCE)
    assert answers[0].status_code == 423
    assert set(answers[0].json()) == {"error", "value", "reason", "remedy"}
    assert service.part.drive.driver == "person"


def test_privacy_that_the_gateway_says_no_more_is_over(service: Service, privacy: Privacy) -> None:
    before = service.last()
    privacy.say(True, seconds=60)
    privacy.say(True, seconds=1)
    assert service.wait("privacy.off", after=before)["by"] == "the gateway said it no more"
    assert service.client.get("/v1/screen").status_code == 200


def test_service_without_the_gate_is_noticed(
    service: Service, privacy: Privacy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deskyard.computer.privacy._is_hidden", lambda path: False)
    with pytest.raises(AssertionError, match="/v1/screen"):
        test_nothing_of_the_screen_is_answered_in_private(service, privacy, {})
