"""Who may drive a desktop chats with its agent on its page, through the real door; Mission Control has what is said."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deskyard.access import gateway_program
from deskyard.control.jobs import said as said_on_page
from deskyard.errors import ConfigError
from deskyard.gateway.chat.chat import PAGES_PER_SESSION
from deskyard.host.deadline import Deadline
from deskyard.wire.talk import MOST_REQUEST
from tests.gateway.conftest import run_gateway
from tests.gateway.mission import Mission, message, mission_at, talk_of
from tests.gateway.support import WAIT_SECONDS, Gateway, Opened, wait_for
from tests.gateway.test_awaiting import waits

WISH = {"id": "a-message-1", "message": "Grüße, 世界", "conversation": None}


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    with run_gateway(Gateway()) as running:
        yield running


@pytest.fixture
def mission(door: Gateway) -> Iterator[Mission]:
    door.revoke(all=True)
    with mission_at(door.layout.chat_socket) as found:
        yield found


class Page:
    """An open page that shows its chat."""

    def __init__(self, gateway: Gateway, desktop: str = "d1", **options: Any) -> None:
        self._gateway, self._desktop = gateway, desktop
        self.id, self.cookie = gateway.session(desktop, **options)
        self.chat = self.follow()

    def follow(self) -> Opened:
        return waits(self._gateway, {"Cookie": self.cookie}, f"/d/{self._desktop}/chat")

    def sees(self, what: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first news that is so."""
        assert self.chat.status == 200, self.chat.head
        deadline, seen = Deadline(WAIT_SECONDS), ""
        # Every few seconds there is a line, if only to say that somebody is there.
        while not deadline.is_over:
            _, _, news = self.chat.read_until(b"\n\n").partition(b"data: ")
            if news and what(facts := json.loads(news)):
                return dict(facts)
            seen = news.decode() or seen
        raise AssertionError(f"the page saw last: {seen}")

    def says(self, wish: Any, **headers: str) -> tuple[int, dict[str, Any]]:
        return said(self._gateway, {"Cookie": self.cookie, **headers}, wish, self._desktop)


def said(gateway: Gateway, who: dict[str, str], wish: Any, desktop: str = "d1") -> tuple[int, dict[str, Any]]:
    # Letters beyond ASCII as they are: a person's browser does not escape them.
    text = wish if isinstance(wish, str) else json.dumps(wish, ensure_ascii=False)
    body = text.encode().decode("latin-1")
    headers = {"Origin": gateway.origin, "Content-Type": "application/json", **who}
    lines = [f"POST /d/{desktop}/say HTTP/1.1", f"Host: {gateway.authority}", f"Content-Length: {len(body)}"]
    lines += ["Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    answer = b""
    with gateway.connect() as line:
        # Mission Control answers, which has twenty seconds.
        line.settimeout(WAIT_SECONDS)
        line.sendall("\r\n".join([*lines, "", body]).encode("latin-1"))
        while part := line.recv(4096):
            answer += part
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(rest) if rest.startswith(b"{") else {}


def answered(page: Page, mission: Mission, **answer: Any) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Say something, and what the page got and Mission Control heard."""
    with ThreadPoolExecutor() as pool:
        saying = pool.submit(page.says, WISH)
        wish = mission.wish()
        mission.says(answer=wish["id"], **answer)
        return *saying.result(60), wish


def test_a_page_shows_what_mission_control_has_and_each_change_of_it(door: Gateway, mission: Mission) -> None:
    page = Page(door)
    assert page.sees(lambda _: True) == {"connected": True, "talk": None}
    mission.opens("d1")
    first = talk_of(message("1", "Grüße", "person"))
    second = talk_of(message("1", "Grüße", "person"), message("2", "I see", state="streaming"))
    mission.shows("d1", first)
    assert page.sees(lambda news: news["talk"])["talk"] == first.news(None)
    mission.shows("d1", second, first)
    assert page.sees(lambda news: news["talk"])["talk"] == second.news(first)
    # One of another desktop is shown nothing of it.
    other = Page(door, "d2")
    assert other.sees(lambda _: True) == {"connected": True, "talk": None}
    mission.opens("d1", "d2")


def test_a_message_is_answered_when_mission_control_has_it(door: Gateway, mission: Mission) -> None:
    page = Page(door, actor="person:Ada")
    result = {"conversation": "cv_1", "message": "ms_1"}
    status, facts, wish = answered(page, mission, result=result)
    assert (status, facts) == (200, result)
    (line,) = [line for line in door.audit() if line["event"] == "say" and line["session"] == page.id]
    assert wish == {
        **{"id": f"{page.id}.a-message-1", "line": line["seq"], "desktop": "d1", "actor": "person:Ada"},
        **{"message": "Grüße, 世界", "conversation": None},
    }
    assert (line["actor"], line["desktop"], len(line["digest"])) == ("person:Ada", "d1", 64)
    assert "Grüße" not in json.dumps(line, ensure_ascii=False)


def test_what_was_said_on_a_page_is_proved_by_the_gateways_audit(
    door: Gateway, mission: Mission, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(door, actor="person:Ada")
    _, _, wish = answered(page, mission, result={})
    # What is said after it is not taken for it.
    Page(door, actor="person:Bob")
    monkeypatch.setattr(gateway_program, "require", lambda name: name)
    monkeypatch.setattr(gateway_program, "ask", lambda _, words: json.loads(door.program_says(*words)))
    given = {"message": "ms_1", "text": WISH["message"], "page": {"request": wish["id"], "line": wish["line"]}}
    given["said_by"] = "person:Ada"
    wanted = {"workspace": "demo", "desktop": "demo.d1", "actor": "person:Ada", "input": given}
    said_on_page.require(wanted)
    # Tried again by somebody else, it was said by who wrote it all the same.
    said_on_page.require({**wanted, "actor": "person:Bob"})
    # In Mission Control nothing has to be proved.
    said_on_page.require({**wanted, "actor": "person:Bob", "input": {"message": "ms_2", "text": "x"}})
    for false in (
        {"input": {**given, "said_by": "person:Bob"}},
        {"desktop": "demo.d2"},
        {"input": {**given, "text": "delete everything"}},
        {"input": {**given, "page": {"request": f"{page.id}.another-one", "line": wish["line"]}}},
        {"input": {**given, "page": {"request": wish["id"], "line": wish["line"] + 1}}},
        {"input": {**given, "page": {"request": wish["id"], "line": max(1, wish["line"] - 1)}}},
        {"input": {**given, "page": {"request": "x.y", "line": 1}}},
    ):
        with pytest.raises(ConfigError, match="was not said on that page"):
            said_on_page.require({**wanted, **false})


def test_a_refusal_of_mission_control_reaches_the_page(door: Gateway, mission: Mission) -> None:
    error = {"field": "queue", "reason": "is full", "remedy": "wait for an answer"}
    status, facts, _ = answered(Page(door), mission, error=error)
    assert (status, facts) == (409, {"error": "queue", "message": "is full", "remedy": "wait for an answer"})


def test_a_page_sees_that_mission_control_goes_and_comes_back(door: Gateway) -> None:
    door.revoke(all=True)
    page = Page(door)
    assert page.sees(lambda _: True)["connected"] is False
    assert page.says(WISH)[0] == 503
    with mission_at(door.layout.chat_socket) as mission:
        mission.opens("d1")
        page.sees(lambda news: news["connected"])
        with ThreadPoolExecutor() as pool:
            saying = pool.submit(page.says, WISH)
            mission.wish()
            # It goes in the midst of it.
            with mission_at(door.layout.chat_socket) as newer:
                assert mission.ended()
                newer.opens("d1")
                assert newer.wish()["message"] == WISH["message"]
                newer.says(answer=f"{page.id}.a-message-1", result={"conversation": "cv_1"})
                assert saying.result(60) == (200, {"conversation": "cv_1"})
    page.sees(lambda news: not news["connected"])


def test_who_may_only_watch_and_programs_have_no_chat(door: Gateway, mission: Mission) -> None:
    watching = Page(door, mode="view")
    assert (watching.chat.status, watching.says(WISH)[0]) == (403, 403)
    _, bearer = door.program()
    token = bearer["Authorization"].removeprefix("Bearer ")
    for who in (bearer, {"Cookie": f"__Host-deskyard-d1={token}"}, {}):
        assert waits(door, who, "/d/d1/chat").status in (401, 403)
        assert said(door, who, WISH)[0] in (401, 403)
    # The session of one desktop is none of another.
    driving = Page(door, "d2")
    assert waits(door, {"Cookie": driving.cookie}, "/d/d1/chat").status == 401
    assert said(door, {"Cookie": driving.cookie}, WISH)[0] == 401
    assert not any(line["event"] == "say" and line["session"] == driving.id for line in door.audit())


@pytest.mark.parametrize("origin", ["", "null", "https://elsewhere.example"])
def test_nothing_is_said_from_another_page(door: Gateway, mission: Mission, origin: str) -> None:
    page = Page(door)
    assert page.says(WISH, Origin=origin)[0] == 403


def test_a_session_that_is_over_shows_and_says_nothing(door: Gateway, mission: Mission) -> None:
    page = Page(door)
    mission.opens("d1")
    door.revoke(page.id)
    # Its stream ends, and it is no page any more.
    wait_for("the end", lambda: page.chat.line.recv(4096) == b"")
    mission.opens()
    assert page.says(WISH)[0] == 401
    assert page.follow().status == 401


@pytest.mark.parametrize(
    ("wish", "status", "field"),
    [
        ("", 400, "request"),
        ("{", 400, "request"),
        ({}, 400, "request"),
        ({**WISH, "id": "x"}, 400, "request"),
        ({**WISH, "conversation": "../x"}, 400, "request"),
        ({**WISH, "message": " "}, 400, "message"),
        ({**WISH, "message": "x" * MOST_REQUEST}, 413, "request"),
    ],
)
def test_what_is_no_wish_is_refused(door: Gateway, mission: Mission, wish: Any, status: int, field: str) -> None:
    page = Page(door)
    found, facts = page.says(wish)
    assert (found, facts.get("error")) == (status, field)


def test_a_long_message_passes(door: Gateway, mission: Mission) -> None:
    page = Page(door)
    wish = {**WISH, "message": "x" * (MOST_REQUEST - 200)}
    with ThreadPoolExecutor() as pool:
        saying = pool.submit(page.says, wish)
        heard = mission.wish()
        mission.says(answer=heard["id"], result={})
        assert saying.result(60) == (200, {})
    assert heard["message"] == wish["message"]


def test_a_session_has_so_many_pages(door: Gateway, mission: Mission) -> None:
    page = Page(door)
    more = [page.follow() for _ in range(PAGES_PER_SESSION)]
    assert [opened.status for opened in more] == [200] * (PAGES_PER_SESSION - 1) + [429]


def test_what_is_rubbish_ends_the_line_and_no_page(door: Gateway) -> None:
    door.revoke(all=True)
    page = Page(door)
    with mission_at(door.layout.chat_socket) as mission:
        page.sees(lambda news: news["connected"])
        mission.says(nonsense=True)
        assert mission.ended()
    page.sees(lambda news: not news["connected"])
