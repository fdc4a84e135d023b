"""What a hostile guest may answer over its agent: nothing is believed that does not have the form of an answer."""

import base64
import json
import re
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.host.vm import agent_answer
from deskyard.site.libvirt import agent

BLOB = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(range(32))).decode()
KEY = f"ssh-ed25519 {BLOB}"


class Guest:
    """A machine whose agent answers what it likes."""

    def name(self) -> str:
        """Its name."""
        return "liar"


def answering(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer commands from a table (text: as it is); returns what was asked."""
    asked: list[dict[str, Any]] = []

    def reply(_: object, request: str, seconds: int, flags: int) -> str:
        asked.append(json.loads(request))
        answer = answers.get(asked[-1]["execute"], {})
        return answer if isinstance(answer, str) else json.dumps({"return": answer})

    monkeypatch.setattr("libvirt_qemu.qemuAgentCommand", reply)
    return asked


def file(content: str) -> dict[str, Any]:
    """Answers of an agent whose every file holds this."""
    return {"guest-file-open": 7, "guest-file-read": {"buf-b64": base64.b64encode(content.encode()).decode()}}


def test_the_key_of_an_honest_guest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, file(f"{KEY} root@guest\n"))
    assert agent.host_key(Guest()) == KEY


@pytest.mark.parametrize(
    "answers",
    [
        {"guest-file-open": 7, "guest-file-read": {"count": 3}},
        {"guest-file-open": 7, "guest-file-read": "[" * 100_000},
        {"guest-file-open": 7, "guest-file-read": "no JSON at all"},
        {"guest-file-open": 7, "guest-file-read": [1, 2]},
        {"guest-file-open": {"a": 1}},
        {"guest-file-open": float("inf")},
        {"guest-file-open": 7, "guest-file-read": {"buf-b64": 5}},
        file(""),
        file(f"ssh-rsa {BLOB}"),
        file(f"ssh-ed25519 {BLOB}{BLOB}"),
        file("ssh-ed25519 AAAA"),
        file("ssh-ed25519 *"),
        file("ssh-ed25519 " + "A" * 10_000_000),
        file(f"neighbour ssh-ed25519 {BLOB}"),
    ],
    ids=lambda answers: str(answers)[:60],
)
def test_a_hostile_answer_is_an_error_of_that_guest(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
    answering(monkeypatch, answers)
    with pytest.raises(SiteError) as caught:
        agent.host_key(Guest())
    assert caught.value.value == "liar"
    assert len(str(caught.value)) < 1000


def test_the_form_of_the_key_is_what_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, file("ssh-ed25519 *"))
    monkeypatch.setattr(agent_answer, "ED25519", re.compile(".*"))
    assert agent.host_key(Guest()) == "ssh-ed25519 *"


def test_no_more_than_the_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, file("x" * 10_000_000))
    assert len(agent.read_file(Guest(), "/etc/anything")) <= agent_answer.MAX_BYTES


def test_no_guest_is_asked_for_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses are the Plan's: the agent has no say in where a gateway sends anybody."""
    asked = answering(monkeypatch, {**file(KEY), "guest-exec": {"pid": 1}, "guest-exec-status": {"exited": True}})
    agent.answers(Guest())
    agent.host_key(Guest())
    agent.execute(Guest(), ["true"])
    used = {request["execute"] for request in asked}
    assert "guest-network-get-interfaces" not in used
    assert used <= {
        "guest-ping",
        "guest-file-open",
        "guest-file-read",
        "guest-file-close",
        "guest-exec",
        "guest-exec-status",
    }


@pytest.mark.parametrize(("seconds", "patience"), [(1, agent.ANSWER_SECONDS), (180.0, 180)])
def test_an_agent_may_take_as_long_for_an_answer_as_its_program_for_its_end(
    monkeypatch: pytest.MonkeyPatch, seconds: float, patience: int
) -> None:
    given: list[int] = []

    def reply(_: object, request: str, seconds: int, flags: int) -> str:
        given.append(seconds)
        return json.dumps({"return": {"pid": 7, "exited": True, "exitcode": 0}})

    monkeypatch.setattr("libvirt_qemu.qemuAgentCommand", reply)
    agent.execute(Guest(), ["true"], seconds)
    assert given == [patience, patience]
