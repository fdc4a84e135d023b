"""What programs do on desktops is in a chain beside the audit: what HAProxy saw, and what the desktop claims."""

import base64
import contextlib
import hashlib
import http.client
import json
import socket
import subprocess
import zlib
from collections.abc import Iterator
from typing import Any, cast

import pytest

from deskyard.gateway import cli
from deskyard.gateway.actions import ledger
from deskyard.gateway.session.audit_check import verify_both
from deskyard.wire.actions import HEADER, MOST_HEADER, pack
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for

ACT = "/d/d1/computer/v1/act"
TYPED = "correct horse battery staple"
BODY = json.dumps({"actions": [{"type": "type", "text": TYPED}]})


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def packed(said: object) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(said).encode())).decode().rstrip("=")


CLAIM = {
    "kind": "type",
    "scope": "act",
    "ok": True,
    "window": 41,
    "class": "XTerm",
    "at": [[3.0, 4.0, "screen"]],
    "text_sha256": digest(TYPED),
}
FRAMES = {"frame_before": digest("before"), "frame_after": digest("after")}


def lines(gateway: Gateway, **facts: object) -> list[dict[str, Any]]:
    """The lines of the chain with these facts; each of its lines is one document."""
    path = gateway.layout.actions_file
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in found if all(line.get(name) == value for name, value in facts.items())]


def listed(gateway: Gateway, session: str, count: int = 1) -> list[dict[str, Any]]:
    """The actions of a session, when there are so many."""
    event = {"session": session, "event": "action"}
    wait_for(f"{count} actions", lambda: len(lines(gateway, **event)) >= count)
    return lines(gateway, **event)


def check(gateway: Gateway) -> dict[str, Any]:
    checked = verify_both(gateway.layout.audit_file, gateway.layout.actions_file)
    # What is just being written looks like a fault, once.
    return checked if checked["ok"] else verify_both(gateway.layout.audit_file, gateway.layout.actions_file)


@contextlib.contextmanager
def answering(gateway: Gateway, *headers: str, status: int = 200) -> Iterator[None]:
    """Desktops that answer with these lines of a head."""
    head = "\r\n".join([f"HTTP/1.1 {status} X", "Content-Length: 2", "Connection: close", *headers, "", "ok"])
    gateway.desktops.answer = head.encode("latin-1")
    try:
        yield
    finally:
        gateway.desktops.answer = None


def test_an_action_is_listed_with_what_the_door_saw_and_what_the_desktop_claims(gateway: Gateway) -> None:
    id, bearer = gateway.program(scopes=["act", "see"], actor="alice")
    with answering(gateway, f"X-Deskyard-Actions: {pack([CLAIM], FRAMES)}", "X-Deskyard-State: 7"):
        answer, data = gateway.request("POST", f"{ACT}?planted=query", BODY, bearer)
    assert (answer.status, data) == (200, b"ok")
    assert answer.getheader("X-Deskyard-State") == "7"
    assert answer.getheader(HEADER) is None, "the claims are for the audit alone"
    [line] = listed(gateway, id)
    seen = {
        "event": "action", "actor": "alice", "desktop": "d1", "route": "computer", "scopes": ["act", "see"],
        "number": 1, "method": "POST", "path": "/v1/act", "status": 200, "bytes": len(BODY), "body": digest(BODY),
        "address": "127.0.0.1",
    }  # fmt: skip
    assert {name: line[name] for name in seen} == seen
    assert line["claimed"] == {"actions": [CLAIM], **FRAMES}
    assert check(gateway)["ok"]


def test_no_text_query_or_token_is_written_down(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    gateway.request("POST", f"{ACT}?planted=query", BODY, bearer)
    listed(gateway, id)
    for path in (gateway.layout.actions_file, gateway.root / "haproxy.log", gateway.root / "service.log"):
        text = path.read_text()
        assert not [word for word in (TYPED, "planted", bearer["Authorization"][7:]) if word in text], path


def test_what_changes_nothing_is_not_listed_and_a_websocket_is(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    assert gateway.request("GET", "/d/d1/computer/v1/screen", None, bearer)[0].status == 200
    assert gateway.upgrade("/d/d1/computer/v1/events", Origin=None, **bearer).status == 101
    assert gateway.request("DELETE", "/d/d1/computer/v1/files?path=x", None, bearer)[0].status == 200
    found = [(line["method"], line["path"], line["status"], line["number"]) for line in listed(gateway, id, 2)]
    assert found == [("GET", "/v1/events", 101, 1), ("DELETE", "/v1/files", 200, 2)]


def test_a_person_s_session_leaves_no_action(gateway: Gateway) -> None:
    id, cookie = gateway.session("d1", routes=["desktop"])
    other, bearer = gateway.program()
    gateway.request("POST", "/d/d1/renew", "{}", {"Cookie": cookie, "Origin": gateway.origin})
    assert gateway.request("POST", ACT, BODY, {"Cookie": cookie})[0].status == 401
    gateway.request("POST", ACT, BODY, bearer)
    listed(gateway, other)
    assert lines(gateway, session=id) == []


def test_a_body_that_is_large_or_comes_in_pieces_passes_and_is_not_hashed(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    assert gateway.request("PUT", ACT, "x" * 200_000, bearer)[0].status == 200
    fields = {"Host": gateway.authority, "Transfer-Encoding": "chunked", **bearer}
    head = "\r\n".join([f"PUT {ACT} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""])
    # The answer is here before the body has ended: nothing was held up to be hashed.
    assert gateway.raw(f"{head}5\r\nhello\r\n").status == 200
    assert gateway.request("DELETE", ACT, None, bearer)[0].status == 200
    assert gateway.request("PUT", ACT, "x" * 12_000, bearer)[0].status == 200
    found = [(line["body"], line["bytes"]) for line in listed(gateway, id, 4)]
    assert [found[0], found[1][0], *found[2:]] == [
        ("large", 200_000), "pieces", ("none", 0), (digest("x" * 12_000), 12_000)
    ]  # fmt: skip


def head_of(gateway: Gateway, bearer: dict[str, str], length: int) -> bytes:
    fields = {"Host": gateway.authority, "Content-Length": str(length), **bearer}
    return "\r\n".join(
        [f"PUT {ACT} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    ).encode()


def test_a_body_that_comes_after_its_head_is_waited_for(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    other, another = gateway.program()
    with gateway.connect() as line:
        line.sendall(head_of(gateway, bearer, 5))
        # The door has had the time for another request meanwhile.
        gateway.request("POST", ACT, BODY, another)
        listed(gateway, other)
        line.sendall(b"hello")
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
    assert listed(gateway, id)[0]["body"] == digest("hello")


def test_a_body_that_ended_early_is_listed_as_a_part(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    with gateway.connect() as line:
        line.sendall(head_of(gateway, bearer, 5) + b"hel")
        # Ended, and not torn down: the door reads all that was sent.
        line.shutdown(socket.SHUT_WR)
        assert listed(gateway, id)[0]["body"] == "part"


HOSTILE = {
    "quotes": 'x" session="root',
    "escape": "\x1b[2J\x1b[31m",
    "space": "AAAA BBBB",
    "equals": "x=1",
    "huge": "A" * (MOST_HEADER + 1),
    "no-zip": "A" * 40,
    "no-json": base64.urlsafe_b64encode(zlib.compress(b"{")).decode().rstrip("="),
    "deep": base64.urlsafe_b64encode(zlib.compress(b"[" * 60_000)).decode().rstrip("="),
    "bomb": base64.urlsafe_b64encode(zlib.compress(b'{"actions":[' + b" " * 2_000_000)).decode().rstrip("="),
    "list": packed([1, 2]),
    "actions-no-list": packed({"actions": "x"}),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_ill_formed_claims_of_a_hostile_desktop_end_as_that(gateway: Gateway, value: str) -> None:
    id, bearer = gateway.program()
    with answering(gateway, f"{HEADER}: {value}"):
        assert gateway.request("POST", ACT, BODY, bearer)[0].status == 200
    assert listed(gateway, id)[0]["claimed"] == f"an ill-formed {HEADER}"
    assert check(gateway)["ok"]


def test_two_headers_are_neither(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    with answering(gateway, f"{HEADER}: {pack([CLAIM])}", f"{HEADER}: {pack([CLAIM])}"):
        answer = gateway.request("POST", ACT, BODY, bearer)[0]
    assert answer.getheader(HEADER) is None
    assert listed(gateway, id)[0]["claimed"] == f"an ill-formed {HEADER}"


def test_a_head_that_is_too_large_for_the_door_is_listed_as_refused(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    with answering(gateway, f"{HEADER}: {'A' * 20_000}"):
        assert gateway.request("POST", ACT, BODY, bearer)[0].status == 502
    [line] = listed(gateway, id)
    assert (line["status"], line["claimed"]) == (502, None)


def test_words_of_a_hostile_desktop_are_plain_and_short(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    hostile = {
        "kind": 'x\n{"seq": 1, "event": "grant"}', "class": "\x1b[31m\u202e" + "y" * 100, "window": 10**30,
        "text_sha256": TYPED, "ok": "yes", "at": [["x", 1, "screen"], [1, 2]], "session": "other", "title": TYPED,
    }  # fmt: skip
    with answering(gateway, f"{HEADER}: {packed({'actions': [hostile] * 120, 'more': -1, 'seq': 1})}"):
        gateway.request("POST", ACT, BODY, bearer)
    [line] = listed(gateway, id)
    plain = {"kind": "x___seq_:_1___event_:__grant__", "class": "_[31m_" + "y" * 58}
    assert line["claimed"] == {"actions": [plain] * 100}
    assert line["session"] == id and check(gateway)["ok"]


def test_a_program_that_is_refused_at_the_door_is_in_the_audit(own_gateway: Gateway) -> None:
    # On a gateway of its own: of what is refused alike within a minute the first alone has a line with its session.
    id, bearer = own_gateway.program("d2")
    assert own_gateway.request("POST", ACT, BODY, bearer)[0].status == 403
    facts = {"event": "refuse", "route": "computer", "desktop": "d1", "session": id, "reason": "scope"}
    wait_for("the refusal", lambda: [e for e in own_gateway.audit() if facts.items() <= e.items()])
    assert lines(own_gateway, session=id) == []


def test_the_gateway_s_program_shows_the_actions_of_a_session(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    id, bearer = gateway.program("d2")
    gateway.request("POST", "/d/d2/computer/v1/act", BODY, bearer)
    [line] = listed(gateway, id)
    monkeypatch.setenv("DESKYARD_GATEWAY_LAYOUT", str(gateway.root / "layout.json"))

    def shown(*options: str) -> Any:
        assert cli.main(["audit", *options]) == 0
        return json.loads(capsys.readouterr().out)

    [found] = shown("--actions", f"--session={id}")
    assert found.items() >= line.items()
    assert {event["desktop"] for event in shown("--actions", "--desktop", "d2")} == {"d2"}
    assert {event["event"] for event in shown(f"--session={id}")} >= {"grant", "redeem"}
    checked = shown("--verify")
    assert checked["ok"] and checked["actions"]["last"] >= line["seq"]


def many(gateway: Gateway, bearer: dict[str, str], count: int) -> None:
    """So many actions, by one connection, each sent in one piece."""
    with gateway.connect() as line:
        for _ in range(count):
            line.sendall(head_of(gateway, bearer, len(BODY)) + BODY.encode())
            answer = http.client.HTTPResponse(line)
            answer.begin()
            assert answer.status == 200 and answer.read()


@pytest.fixture(scope="module")
def own() -> Iterator[Gateway]:
    """A gateway whose service a test may end and start again; a body may take two seconds to come."""
    patient, brief = "wait-for-body time 5s", "wait-for-body time 2s"
    with run_gateway(Gateway(weaken=lambda text: text.replace(patient, brief))) as running:
        yield running


def service_of(gateway: Gateway) -> subprocess.Popen[bytes]:
    [running] = [
        process for process in gateway.processes if process.poll() is None and "serve" in cast(list[str], process.args)
    ]
    return running


def test_one_who_acts_without_end_is_counted_above_his_share_and_pushes_out_nobody(own: Gateway) -> None:
    id, bearer = own.program()
    other, another = own.program("d1")
    before = len(own.audit())
    many(own, bearer, ledger.LINES + 15)
    many(own, another, 1)
    listed(own, other)
    service = service_of(own)
    service.terminate()
    service.wait(20)
    assert len(lines(own, session=id, event="action")) == ledger.LINES
    [counted] = lines(own, event="counted", session=id)
    assert (counted["actor"], counted["requests"]) == ("tester", 15)
    assert (counted["first"], counted["last"]) == (ledger.LINES + 1, ledger.LINES + 15)
    # All that the audit of decisions has of it is the end of the chain of actions, once a minute and at last.
    anchors = own.audit()[before:]
    assert {event["event"] for event in anchors} == {"actions"} and len(anchors) < 10
    assert anchors[-1]["last"] == lines(own)[-1]["seq"]
    assert check(own)["ok"]
    own.start_service()


def test_a_killed_service_loses_the_last_batch_at_most_and_what_is_lost_shows(own: Gateway) -> None:
    id, bearer = own.program()
    many(own, bearer, 3)
    listed(own, id, 3)
    many(own, bearer, 2)
    service = service_of(own)
    service.kill()
    service.wait(20)
    many(own, bearer, 1)  # HAProxy carries on, and nobody hears of it
    own.start_service()
    many(own, bearer, 2)
    wait_for("the last", lambda: lines(own, session=id, number=8))
    numbers = [line["number"] for line in lines(own, session=id)]
    assert numbers[:3] == [1, 2, 3] and numbers[-2:] == [7, 8] and 6 not in numbers
    assert check(own)["ok"]


def test_a_request_whose_body_never_comes_is_listed_as_late_and_does_nothing(own: Gateway) -> None:
    id, bearer = own.program()
    before = len(own.desktops.requests)
    with own.connect() as line:
        line.sendall(head_of(own, bearer, 5))
        assert line.recv(4096).startswith(b"HTTP/1.1 408")
    [late] = listed(own, id)
    assert (late["body"], late["number"], late["status"]) == ("late", 1, 408)
    assert len(own.desktops.requests) == before


def test_what_is_no_line_of_the_log_is_no_action(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        for said in (b"\xff\x00" * 1000, b"127.0.0.1:1 pid=1 method=POST path=/d/d1/computer/v1/act status=200\n", b""):
            line.sendto(said, ("127.0.0.1", gateway.layout.actions_port))
    gateway.request("POST", ACT, BODY, bearer)
    assert [action["number"] for action in listed(gateway, id)] == [1]
