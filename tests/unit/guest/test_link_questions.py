"""What the key of `link` may ask a gateway, word by word."""

import json
from typing import Any

import pytest

from deskyard.gateway import status_service
from deskyard.guest import link_questions
from deskyard.guest.link_account import RIGHTS, key_line
from deskyard.guest.link_questions import answer_of, refusal, requests, understood
from deskyard.wire import session_requests
from deskyard.wire.stages import OF_HOST, Stage
from deskyard.workspace import readiness

SOURCE, HEAD = "mission.0123456789abcdef", "a" * 64
ANCHOR = f"anchor --source {SOURCE} --number 7 --head {HEAD} --actor mission-control"
ASKED = (
    "status",
    "status dev1",
    "status dev1,dev-2,s3",
    "list",
    "waking dev1 starts",
    "waking dev1 no-room",
    "stages dev1=io-error@1764441700",
    "stages dev1=stopped@1764441700,dev-2=booting@1",
    "chat",
    "asks --json --follow",
    "audit --verify",
    f"audit --verify --known 1:{HEAD}",
    f"anchors --source {SOURCE}",
    f"anchors --source {SOURCE} --last 1",
    ANCHOR,
)


@pytest.mark.parametrize("question", ASKED)
def test_each_question_is_understood(question: str) -> None:
    assert understood(question) == question.split()


@pytest.mark.parametrize(
    "question",
    [
        "",
        "id",
        "/bin/sh",
        "sh -c id",
        "sudo -n deskyard-gateway list",
        "deskyard-gateway list",
        "grant --desktop d1",
        "waking dev1",
        "waking dev1 running",
        "waking Dev1 starts",
        "waking dev1 starts|failed",
        "stages",
        "stages dev1=stopped",
        "stages dev1=ready@1764441700",
        "stages dev1=stopped@0",
        "stages dev1=stopped@1764441700.5",
        "stages dev1=stopped@9999999999999999999",
        "stages dev1=stopped@1,",
        "stages dev1=stopped@1;dev2=stopped@1",
        "revoke --all",
        "keys rotate",
        "decide 0a --once",
        "decide-signed 0a once",
        "deciders",
        "allow example.org",
        "apply",
        "csr",
        "chat list",
        "list list",
        "list --help",
        " list",
        "list ",
        "list\n",
        "list\nid",
        "\nlist",
        "list\tx",
        "list;id",
        "list; id",
        "list|id",
        "list && id",
        "list `id`",
        "list $(id)",
        "list >/tmp/x",
        "'list'",
        '"list"',
        "l\\ist",
        "LIST",
        "l\u0131st",
        "status --timeout 600",
        "status --desktop",
        "status dev1,",
        "status ,dev1",
        "status dev1,,dev2",
        "status Dev1",
        "status dev1-",
        "status dev1 dev2",
        f"status {'d' * 33}",
        "asks",
        "asks --json",
        "asks --follow --json",
        "asks --json --follow --follow",
        "audit",
        "audit --since 0",
        "audit --verify --actions",
        f"audit --verify --known 1:{HEAD}0",
        f"audit --verify --known \u0661:{HEAD}",
        f"audit --verify --known -1:{HEAD}",
        "anchors",
        "anchors --source other",
        f"anchors --source {SOURCE} --last -1",
        f"anchors --source {SOURCE}0",
        ANCHOR.replace(SOURCE, "other.0123456789abcdef"),
        ANCHOR.replace("mission-control", "root"),
        ANCHOR.replace("--number 7", "--number 99999999999999999999"),
        f"{ANCHOR} --actor root",
        ANCHOR.replace(" --actor mission-control", ""),
        "x" * 100_000,
    ],
    ids=lambda text: ascii(text[:40]),
)
def test_anything_else_is_none(question: str) -> None:
    assert understood(question) is None
    assert refusal(question)["error"]["field"] == "question"


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize("letter", list(";|&$`<>()'\"\\\n\r\t\0 *?~#"))
def test_no_letter_that_a_shell_reads_is_part_of_one(question: str, letter: str) -> None:
    for at in range(len(question) + 1):
        assert understood(question[:at] + letter + question[at:]) is None


def test_services_are_asked_as_from_here() -> None:
    service, status = f"/{session_requests.SOCKET}", f"/{readiness.STATUS_SOCKET}"
    assert requests(["list"]) == [(service, session_requests.listing())]
    assert requests(ANCHOR.split()) == [(service, session_requests.anchor(SOURCE, 7, HEAD, "mission-control"))]
    assert requests(["waking", "dev1", "no-room"]) == [(service, session_requests.waking("dev1", "no-room"))]
    stages = session_requests.stages({"dev1": ("paused", 7), "dev-2": ("io-error", 8)})
    assert requests(["stages", "dev1=paused@7,dev-2=io-error@8"]) == [(service, stages)]
    assert requests(["status"]) == [(status, status_service.ASKED)]
    named = {**status_service.ASKED, "desktops": ["dev1", "dev2"]}
    assert requests(["status", "dev1,dev2"]) == [(status, named), (status, status_service.ASKED)]
    assert requests(["audit", "--verify"]) == []


def test_pages_that_wait_are_told_what_hosts_tell_them() -> None:
    for state in session_requests.WAKINGS:
        assert understood(f"waking dev1 {state}")
    assert [state for state in Stage if understood(f"stages dev1={state}@1764441700")] == list(OF_HOST)


STRANGE = {"error": {"field": "request", "value": None, "reason": "is no question", "remedy": "ask another"}}
FAULT = {"error": {"field": "settings", "value": None, "reason": "is broken", "remedy": "mend it"}}


@pytest.mark.parametrize(
    ("says", "answer"),
    [
        ([{"result": 1}], {"result": 1}),
        ([STRANGE, {"result": 2}], {"result": 2}),
        ([FAULT], FAULT),
        ([STRANGE, None], None),
        ([STRANGE, STRANGE], None),
        ([None], None),
    ],
    ids=["understood", "from before", "its error", "ended", "stranger", "silent"],
)
def test_a_service_from_before_is_asked_after_all_desktops(
    monkeypatch: pytest.MonkeyPatch, says: list[Any], answer: Any
) -> None:
    left = list(says)
    monkeypatch.setattr(link_questions, "ask_service", lambda *_: left.pop(0))
    assert answer_of(["status", "dev1,dev2"]) == answer
    assert not left


def test_what_is_shown_of_a_question_steers_no_terminal() -> None:
    shown = json.dumps(refusal("\x1b[2J\u202e" + "x" * 1000))
    assert "\\u" not in shown and len(shown) < 400


def test_the_line_of_the_key_forbids_all_and_sudo_takes_no_argument() -> None:
    assert key_line("ssh-ed25519 AAAA x").startswith(
        'restrict,command="/usr/bin/sudo -n /usr/lib/deskyard-questions/answer" '
    )
    assert RIGHTS.rstrip().endswith('NOPASSWD: /usr/lib/deskyard-questions/answer ""')
