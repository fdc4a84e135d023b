"""A turn over OpenClaw's own protocol: the frames are those that OpenClaw 2026.9.6 sent on 2026-11-26, shortened."""

import base64
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.guest.agent import device
from deskyard.guest.agent.openclaw import Older, Turn, converse, opened, since
from deskyard.guest.agent.turn import Failed, Watch

FRAMES = [json.loads(line) for line in (Path(__file__).parent / "openclaw-2026.9.6.jsonl").read_text().splitlines()]
# A command that OpenClaw asks about before it runs, as tools.exec.mode: ask has it; the answer, and what it tells then.
ASKING, TAKEN, RESOLVED = (
    json.loads(line) for line in (Path(__file__).parent / "openclaw-approval-2026.9.6.jsonl").read_text().splitlines()
)
STARTED = next(at for at, frame in enumerate(FRAMES) if (frame.get("payload") or {}).get("stream") == "tool")
ASKED = [*FRAMES[: STARTED + 1], ASKING, TAKEN, RESOLVED, *FRAMES[STARTED + 1 :]]
ELSEWHERE = [frame for frame in ASKED if frame is not TAKEN]
REQUEST = {"session": "report", "id": "ms_0001", "text": "Please run it."}
SAID = "The command said: made by root"


class Double(threading.Thread):
    """Speaks as the real gateway did: each request has its recorded answer, and what followed it."""

    def __init__(self, link: socket.socket, frames: list[dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self.link, self.frames, self.asked = link, list(frames), list[dict[str, Any]]()

    def run(self) -> None:
        reader = self.link.makefile("rb")
        while reader.readline().strip():
            pass
        self.link.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        self._say()
        while head := reader.read(2):
            size = head[1] & 0x7F
            size = int.from_bytes(reader.read(2), "big") if size == 126 else size
            mask = reader.read(4)
            request = json.loads(bytes(byte ^ mask[at % 4] for at, byte in enumerate(reader.read(size))))
            self.asked.append(request)
            while self.frames and self.frames[0].get("id") != request["method"]:
                self.frames.pop(0)
            if not self.frames:
                break
            self.frames[0] = {**self.frames[0], "id": request["id"]}
            self._say()
        self.link.shutdown(socket.SHUT_RDWR)

    def _say(self) -> None:
        """The next frame, and the events after it."""
        while self.frames:
            text = json.dumps(self.frames.pop(0)).encode()
            self.link.sendall(b"\x81\x7e" + len(text).to_bytes(2, "big") + text)
            if not self.frames or self.frames[0]["type"] == "res":
                return


@pytest.fixture
def links() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    for link in (ours, theirs):
        link.settimeout(30)
    yield ours, theirs
    ours.close()
    theirs.close()


def turn(
    links: tuple[socket.socket, socket.socket],
    home: Path,
    frames: list[dict[str, Any]] = FRAMES,
    permissions: str = "",
    option: str = "",
) -> list[dict[str, Any]]:
    """What the double was asked in a whole turn; `option` is what a person answers."""
    double, watch = Double(links[1], frames), Watch(60)
    double.start()
    if option:
        watch._take(json.dumps({"id": ASKING["payload"]["id"], "option": option}).encode() + b"\n")
    asked = REQUEST | ({"permissions": permissions} if permissions else {})
    converse(opened(links[0], "here"), "canary-token", asked, watch, home)
    return double.asked


def decisions(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What OpenClaw was told of its questions, by whom it knew to be able to tell."""
    answers = [request["params"] for request in asked if request["method"] == "exec.approval.resolve"]
    assert ("exec-approvals" in asked[0]["params"]["caps"]) or not answers
    return answers


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_turn_says_tools_text_and_tokens(
    links: tuple[socket.socket, socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = turn(links, tmp_path)
    heard = events(capsys)
    assert [event["state"] for event in heard if event["event"] == "tool"] == ["started", "started", "done"]
    assert "made by" in next(event for event in heard if event["event"] == "tool")["summary"]
    assert "".join(event["text"] for event in heard if event["event"] == "text") == SAID
    assert (heard[0]["event"], heard[-1]["event"]) == ("begin", "usage")
    assert [request["method"] for request in asked] == ["connect", "chat.send", "chat.history"]
    assert asked[1]["params"]["idempotencyKey"] == "ms_0001"


def test_message_that_was_done_before_has_its_answer_read_again(
    links: tuple[socket.socket, socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = [frame for frame in FRAMES if frame["type"] == "res" or frame["event"] == "connect.challenge"]
    sent = {"type": "res", "id": "chat.send", "ok": True, "payload": {"runId": "ms_0001", "status": "ok"}}
    turn(links, tmp_path, [sent if frame.get("id") == "chat.send" else frame for frame in frames])
    assert [event["event"] for event in events(capsys)] == ["begin", "text", "usage"]


def test_challenge_is_signed_by_a_key_that_stays(tmp_path: Path) -> None:
    key = device.key(tmp_path)
    proof = device.identity(key, "canary-token", {"ts": 7, "nonce": "n"})
    assert device.key(tmp_path).read_bytes() == key.read_bytes()
    assert key.stat().st_mode & 0o077 == 0
    # The witness is openssl's own verification, over the words that OpenClaw's `buildDeviceAuthPayloadV3` joins.
    scopes = "operator.read,operator.write,operator.approvals"
    client = f"{device.CLIENT['id']}|{device.CLIENT['mode']}"
    payload = tmp_path / "payload"
    payload.write_text(f"v3|{proof['id']}|{client}|operator|{scopes}|7|canary-token|n|linux|")
    signature = tmp_path / "signature"
    signature.write_bytes(base64.urlsafe_b64decode(proof["signature"] + "=="))
    files = ["-in", str(payload), "-sigfile", str(signature)]
    subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-inkey", str(key), *files], check=True, timeout=60)


def test_gateway_that_refuses_the_device_is_older_and_nothing_was_asked(
    links: tuple[socket.socket, socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"code": "NOT_PAIRED", "message": "pairing required"}
    with pytest.raises(Older, match="NOT_PAIRED"):
        turn(links, tmp_path, [FRAMES[0], {"type": "res", "id": "connect", "ok": False, "error": error}])
    assert events(capsys) == []


@pytest.mark.parametrize(("state", "cause"), [("aborted", "over"), ("error", "agent")])
def test_turn_that_ends_otherwise_is_not_done(state: str, cause: str) -> None:
    with pytest.raises(Failed) as caught:
        Turn("r").hear("chat", {"runId": "r", "state": state, "errorMessage": "no"})
    assert caught.value.cause == cause


def test_another_run_is_not_this_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert not Turn("r").hear("chat", {"runId": "other", "state": "final"})
    assert since([{"role": "user", "idempotencyKey": "ms_1:user"}, {"role": "assistant"}], "ms_2") == []
    assert events(capsys) == []


@pytest.mark.parametrize(("permissions", "decision"), [("allow", "allow-once"), ("refuse", "deny")])
def test_what_openclaw_asks_is_answered_as_declared(
    links: tuple[socket.socket, socket.socket],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    permissions: str,
    decision: str,
) -> None:
    decided = decisions(turn(links, tmp_path, ASKED, permissions))
    assert decided == [{"id": ASKING["payload"]["id"], "decision": decision}]
    [approval] = [event for event in events(capsys) if event["event"] == "approval"]
    assert (approval["kind"], approval["asked"]) == (permissions, "touch made-by-exec; echo hello")


@pytest.mark.parametrize(
    ("option", "decision", "heard"),
    [("allow-once", "allow-once", "allow-once"), ("deny", "deny", "deny"), ("allow-always", "deny", None)],
)
def test_a_person_is_asked_with_the_options_that_openclaw_allows(
    links: tuple[socket.socket, socket.socket],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    decision: str,
    heard: str | None,
) -> None:
    decided = decisions(turn(links, tmp_path, ASKED, "ask", option))
    assert decided == [{"id": ASKING["payload"]["id"], "decision": decision}]
    said = events(capsys)
    question = next(event for event in said if event["event"] == "question")
    assert question["asked"] == "touch made-by-exec; echo hello"
    assert [(option["id"], option["kind"]) for option in question["options"]] == [
        ("allow-once", "allow_once"), ("deny", "reject_once"),
    ]  # fmt: skip
    assert [event["option"] for event in said if event["event"] == "heard"] == [heard]
    assert "".join(event["text"] for event in said if event["event"] == "text") == SAID


def test_question_that_was_answered_elsewhere_stays_open_nowhere(
    links: tuple[socket.socket, socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert decisions(turn(links, tmp_path, ELSEWHERE, "ask")) == []
    said = [event["event"] for event in events(capsys)]
    assert said.count("question") == said.count("heard")
    assert said[-1] == "usage"


def test_without_a_declaration_openclaw_is_told_that_nobody_answers(
    links: tuple[socket.socket, socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = turn(links, tmp_path, ELSEWHERE)
    assert asked[0]["params"]["caps"] == ["tool-events"]
    assert decisions(asked) == []
    assert [event["kind"] for event in events(capsys) if event["event"] == "approval"] == ["exec"]
