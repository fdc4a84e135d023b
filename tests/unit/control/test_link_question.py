"""What observer and watch believe of a gateway's answers, which came by the process that parses them all day."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access.gateway_program import Rubbish
from deskyard.control.link import answers, question
from deskyard.errors import ConfigError, SiteError
from deskyard.guest.link_questions import understood
from deskyard.wire.stages import Stage
from tests.support.served import served

PLAN: Any = SimpleNamespace(name="lab")
DESKTOPS: Any = (SimpleNamespace(name="first"), SimpleNamespace(name="second"))
STATUS = {"ready": False, "gateway_ready": True, "desktops": {"first": {"desktop": {"ready": True, "error": "x"}}}}
SESSION = {"id": "s1", "desktop": "first", "actor": "ann", "idle": 7, "does": "drives", "ticket": None}
SECONDS = 30


class Asker:
    """Who asks gateways; it says what the test gave it."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.errors: list[Exception] = []
        self.asked: list[Any] = []

    def ask(self, name: str, words: list[str]) -> Any:
        self.asked.append((name, words))
        if self.errors:
            raise self.errors.pop(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def asker() -> Asker:
    return Asker()


@pytest.fixture
def link(asker: Asker, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "link.sock"
    with served(path, lambda listener: answers.Server(listener, asker)):  # type: ignore[arg-type]
        yield path


def test_of_a_status_it_is_believed_what_is_ready(link: Path, asker: Asker) -> None:
    asker.answer = STATUS
    wanted = {"ready": False, "gateway_ready": True, "desktops": {"first": {"desktop": {"ready": True}}}}
    assert question.status(link)(PLAN, DESKTOPS) == wanted
    assert asker.asked == [("lab", ["status", "first,second"])]


def test_a_gateway_that_was_set_up_before_is_asked_after_all_desktops(link: Path, asker: Asker) -> None:
    asker.answer, asker.errors = (
        STATUS,
        [ConfigError("question", "status first,second", "is no question", "ask another")],
    )
    assert question.status(link)(PLAN, DESKTOPS)["gateway_ready"]
    assert asker.asked == [("lab", ["status", "first,second"]), ("lab", ["status"])]
    asker.errors = [ConfigError("settings", None, "are not there yet", "apply them")]
    assert question.status(link)(PLAN, DESKTOPS)["error"] == "are not there yet"
    assert len(asker.asked) == 3


def test_pages_that_wait_are_told_what_came_of_it(link: Path, asker: Asker) -> None:
    asker.answer = {"wanted": True}
    question.tell_waking(link)("lab", "first", "no-room")
    assert asker.asked == [("lab", ["waking", "first", "no-room"])]
    asker.answer = ConfigError("command", "waking", "is not known", "use deskyard-gateway")
    with pytest.raises(SiteError, match="is not known"):
        question.tell_waking(link)("lab", "first", "starts")


def test_gateway_is_told_where_its_host_has_desktops(link: Path, asker: Asker) -> None:
    asker.answer = {"news": ["first"]}
    question.tell_stages(link)("lab", {"first": (Stage.IO_ERROR, 1764441700.9), "second": (Stage.STOPPED, 7.0)})
    assert asker.asked == [("lab", ["stages", "first=io-error@1764441700,second=stopped@7"])]
    assert understood(" ".join(asker.asked[0][1]))
    # One that was set up before does not know it.
    asker.answer = ConfigError("question", "stages", "is no question that this key may ask", "ask another")
    with pytest.raises(SiteError, match="is no question"):
        question.tell_stages(link)("lab", {"first": (Stage.STOPPED, 7.0)})


def test_of_stopped_agents_it_is_believed_since_when(link: Path, asker: Asker) -> None:
    asker.answer = {**STATUS, "stopped": {"first\x1b": {"since": 7, "by": "ann", "still": True}}}
    assert question.status(link)(PLAN, DESKTOPS)["stopped"] == {"first ": {"since": 7}}


def test_of_sessions_it_is_believed_who_does_what_and_since_when(link: Path, asker: Asker) -> None:
    asker.answer = [SESSION, {**SESSION, "idle": None, "does": None}]
    used = {"desktop": "first", "actor": "ann", "idle": 7, "does": "drives", "wanted": None}
    assert question.sessions(link)("lab") == [used, {**used, "idle": None, "does": None}]


def test_of_sessions_it_is_believed_since_when_one_wants_its_desktop(link: Path, asker: Asker) -> None:
    asker.answer = [{**SESSION, "idle": None, "does": None, "wanted": 3}, {**SESSION, "wanted": None}]
    found = question.sessions(link)("lab")
    assert found is not None and [session["wanted"] for session in found] == [3, None]


def test_what_a_gateway_says_of_people_steers_no_terminal(link: Path, asker: Asker) -> None:
    asker.answer = [{**SESSION, "actor": "\x1b[2J" + "x" * 1000}]
    found = question.sessions(link)("lab")
    assert found is not None and found[0]["actor"].isprintable() and len(found[0]["actor"]) == question.MOST_TEXT


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {**STATUS, "ready": "yes"},
        {**STATUS, "gateway_ready": 1},
        {**STATUS, "desktops": []},
        {**STATUS, "desktops": {"first": []}},
        {**STATUS, "stopped": None},
        {**STATUS, "stopped": []},
        {**STATUS, "stopped": {"first": None}},
        {**STATUS, "stopped": {"first": {}}},
        *({**STATUS, "stopped": {"first": {"since": since}}} for since in ("7", -1, 1e12, float("nan"), True)),
    ],
)
def test_rubbish_for_a_status_is_a_gateway_that_does_not_answer(link: Path, asker: Asker, answer: Any) -> None:
    with pytest.raises(Rubbish):
        question.read_status("lab", answer)
    asker.answer = answer
    found = question.status(link)(PLAN, DESKTOPS)
    assert (found["gateway_ready"], found["desktops"]) == (False, {}) and "no status" in found["error"]


@pytest.mark.parametrize(
    "answer",
    [
        *(None, {}, [1], [{}], [SESSION] * (question.MOST_ROWS + 1), [{**SESSION, "desktop": 1}]),
        *([{**SESSION, "idle": idle}] for idle in ("7", float("nan"), float("inf"))),
        *([{**SESSION, "wanted": wanted}] for wanted in ("7", True, float("nan"), float("inf"), [1])),
        [{**SESSION, "does": 1}],
    ],
)
def test_rubbish_for_sessions_is_a_gateway_that_cannot_be_asked(link: Path, asker: Asker, answer: Any) -> None:
    with pytest.raises(Rubbish):
        question.read_sessions("lab", answer)
    asker.answer = answer
    assert question.sessions(link)("lab") is None


def test_a_gateway_that_is_away_is_told_with_its_reason(link: Path, asker: Asker) -> None:
    asker.answer = SiteError("gateway", "lab", "cannot be asked: it is silent", "see ./inv workspace.status lab")
    assert question.status(link)(PLAN, DESKTOPS)["error"] == "cannot be asked: it is silent"
    assert question.sessions(link)("lab") is None


def test_where_nobody_asks_gateways_none_answers(tmp_path: Path) -> None:
    assert "does not answer" in question.status(tmp_path / "none.sock")(PLAN, DESKTOPS)["error"]
    assert question.sessions(tmp_path / "none.sock")("lab") is None


@pytest.mark.parametrize("asked", ["anchors", "grant", "asks", ""])
def test_nothing_but_these_two_is_asked_for_others(link: Path, asker: Asker, asked: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(SECONDS)
        line.connect(str(link))
        line.sendall(json.dumps({"workspace": "lab", "question": asked}).encode() + b"\n")
        assert line.recv(1) == b""
    assert asker.asked == []


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{}", b'{"error": 1}', b"", b"x"])
def test_a_process_that_was_taken_is_believed_nothing(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "link.sock"
    for ask in (lambda: question.status(path)(PLAN, DESKTOPS)["error"], lambda: question.sessions(path)("lab") is None):
        assert _answering(path, text, ask)


def _answering(path: Path, text: bytes, ask: Callable[[], Any]) -> Any:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(SECONDS)

        def serve() -> None:
            line, _ = listener.accept()
            with line:
                line.recv(4096)
                line.sendall(text)

        thread = threading.Thread(target=serve)
        thread.start()
        found = ask()
        thread.join(SECONDS)
    path.unlink()
    return found
