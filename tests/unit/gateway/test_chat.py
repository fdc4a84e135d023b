"""The chat of a page: Mission Control alone has it, and what it has not answered was not sent."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.chat.chat import PAGES, PAGES_PER_SESSION, WAITING_PER_SESSION, Chat, Wish, parse
from deskyard.gateway.page_news import Page
from deskyard.gateway.session.refusal import status_of
from deskyard.gateway.session.store import Session
from deskyard.wire.talk import MOST_MESSAGES, Talk
from tests.unit.gateway.support import parsed
from tests.unit.gateway.test_awaiting import person

DESKTOP = parsed().desktops[0].name


def message(id: str, text: str = "hello") -> dict[str, Any]:
    return {"id": id, "text": text}


def talk(*messages: dict[str, Any], conversation: str = "cv_1") -> Talk:
    return Talk(conversation, "hello", {each["id"]: each for each in messages})


class Door:
    """A gateway's chat, and what it sends to Mission Control."""

    def __init__(self, seconds: float = 60) -> None:
        self.notes: list[tuple[str, dict[str, object]]] = []
        self.sent: list[dict[str, Any]] = []
        self.chat = Chat(parsed(), self._note, seconds)

    def _note(self, event: str, session: Session, **facts: object) -> int:
        self.notes.append((event, facts))
        return len(self.notes)

    def send(self, document: dict[str, Any]) -> None:
        self.sent.append(document)

    def shows(self, page: Page) -> Callable[[], dict[str, Any] | None]:
        return self.chat.reader(page)


@pytest.fixture
def door() -> Door:
    return Door()


def user(letter: str = "a", **changes: Any) -> Session:
    return person(letter, desktop=DESKTOP, **changes)


async def whether(done: Callable[[], Any]) -> None:
    """Let others go on until it is so; fails after a thousand turns."""
    for _ in range(1000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never was so")


def test_what_is_shown_is_sent_once_and_then_what_is_new_of_it(door: Door) -> None:
    page = door.chat.join(user())
    read = door.shows(page)
    assert read() == {"connected": False, "talk": None}
    door.chat.connect(door.send)
    assert door.sent == [{"open": [DESKTOP]}]
    assert read() == {"connected": True, "talk": None}
    assert read() is None
    first, second = talk(message("1")), talk(message("1"), message("2"))
    door.chat.hear({"desktop": DESKTOP, "talk": first.news(None)})
    assert page.news.is_set()
    assert read() == {"connected": True, "talk": first.news(None)}
    door.chat.hear({"desktop": DESKTOP, "talk": second.news(first)})
    news = read()
    assert news is not None
    assert (news["talk"]["order"], news["talk"]["messages"]) == (["1", "2"], [message("2")])
    # Who comes later gets the whole of it.
    assert door.shows(door.chat.join(user("b")))() == {"connected": True, "talk": second.news(None)}


def test_nothing_is_kept_of_a_chat_that_nobody_looks_at(door: Door) -> None:
    door.chat.connect(door.send)
    page = door.chat.join(user())
    door.chat.hear({"desktop": DESKTOP, "talk": talk(message("1")).news(None)})
    door.chat.leave(page)
    assert door.sent[-1] == {"open": []}
    # It was on its way when the page left.
    door.chat.hear({"desktop": DESKTOP, "talk": talk(message("1")).news(None)})
    assert door.shows(door.chat.join(user()))() == {"connected": True, "talk": None}
    # It tells of what is not known here any more; the whole comes after it.
    door.chat.hear({"desktop": DESKTOP, "talk": talk(message("1"), message("2")).news(talk(message("1")))})
    door.chat.hear({"desktop": DESKTOP, "talk": talk(message("1")).news(None)})


def test_a_message_is_sent_when_mission_control_has_it(door: Door) -> None:
    door.chat.connect(door.send)

    async def both() -> Any:
        asked = asyncio.create_task(door.chat.ask(user(), Wish("12345678", "hello", None)))
        await whether(lambda: any("wish" in each for each in door.sent))
        assert not asked.done()
        door.chat.hear({"answer": f"{'a' * 24}.12345678", "result": {"conversation": "cv_1"}})
        return await asked

    assert asyncio.run(both()) == {"conversation": "cv_1"}
    assert door.sent[-1]["wish"] == {
        **{"id": f"{'a' * 24}.12345678", "line": 1, "desktop": DESKTOP, "actor": user().actor},
        **{"message": "hello", "conversation": None},
    }
    digest = hashlib.sha256(b"hello").hexdigest()
    assert door.notes == [("say", {"result": "passed on", "id": "12345678", "digest": digest})]


def refused(door: Door, work: Coroutine[Any, Any, Any], meanwhile: Callable[[], object] = lambda: None) -> GatewayError:
    """The refusal of a wish."""

    async def both() -> None:
        asked = asyncio.create_task(work)
        if meanwhile is not None:
            for _ in range(3):
                await asyncio.sleep(0)
            meanwhile()
        await asked

    with pytest.raises(GatewayError) as raised:
        asyncio.run(both())
    return raised.value


def test_a_refusal_of_mission_control_is_that_of_the_page(door: Door) -> None:
    door.chat.connect(door.send)
    said = {"field": "queue", "reason": "is full", "remedy": "wait"}
    answer = {"answer": f"{'a' * 24}.12345678", "error": said}
    error = refused(door, door.chat.ask(user(), Wish("12345678", "x", None)), lambda: door.chat.hear(answer))
    assert (error.field, error.reason, error.remedy, status_of(error)) == ("queue", "is full", "wait", 409)


def test_nothing_is_said_while_mission_control_is_away(door: Door) -> None:
    error = refused(door, door.chat.ask(user(), Wish("12345678", "x", None)))
    assert (status_of(error), error.field) == (503, "chat")
    assert door.notes == []


def test_a_message_whose_answer_does_not_come_was_perhaps_stored(door: Door) -> None:
    door.chat.connect(door.send)
    gone = refused(
        door,
        door.chat.ask(user(), Wish("12345678", "x", None)),
        lambda: door.chat.disconnect(door.chat._send),  # type: ignore[arg-type]
    )
    assert status_of(gone) == 503
    late = Door(seconds=0.01)
    late.chat.connect(late.send)
    error = refused(late, late.chat.ask(user(), Wish("12345678", "x", None)))
    assert (status_of(error), error.remedy) == (504, "send it again: it is stored once")
    # An answer that comes after that is nobody's.
    late.chat.hear({"answer": f"{'a' * 24}.12345678", "result": {}})


def test_what_was_not_answered_is_asked_again_on_a_newer_line(door: Door) -> None:
    door.chat.connect(door.send)
    newer: list[dict[str, Any]] = []

    async def both() -> Any:
        asked = asyncio.create_task(door.chat.ask(user(), Wish("12345678", "hello", None)))
        await whether(lambda: any("wish" in each for each in door.sent))
        door.chat.connect(newer.append)
        door.chat.hear({"answer": newer[1]["wish"]["id"], "result": {"conversation": "cv_1"}})
        return await asked

    assert asyncio.run(both()) == {"conversation": "cv_1"}
    assert newer == [{"open": []}, door.sent[-1]]
    # It was said once.
    assert len(door.notes) == 1
    later: list[dict[str, Any]] = []
    door.chat.connect(later.append)
    assert later == [{"open": []}]


def test_an_older_line_that_ends_takes_nothing_from_the_newer_one(door: Door) -> None:
    old, new = door.send, lambda document: None
    door.chat.connect(old)
    door.chat.connect(new)
    door.chat.disconnect(old)
    assert door.shows(door.chat.join(user()))() == {"connected": True, "talk": None}
    door.chat.disconnect(new)
    assert door.shows(door.chat.join(user()))() == {"connected": False, "talk": None}


@pytest.mark.parametrize("mode", ["view", "agent"])
def test_who_may_not_drive_has_no_chat(door: Door, mode: str) -> None:
    door.chat.connect(door.send)
    with pytest.raises(GatewayError, match="may only look on"):
        door.chat.join(user(mode=mode))
    assert status_of(refused(door, door.chat.ask(user(mode=mode), Wish("12345678", "x", None)))) == 403
    assert door.sent == [{"open": []}]


def test_pages_and_messages_of_a_session_are_bounded(door: Door) -> None:
    for _ in range(PAGES_PER_SESSION):
        door.chat.join(user())
    with pytest.raises(GatewayError, match="show this chat already"):
        door.chat.join(user())
    door.chat.join(user("b"))
    assert PAGES < 350  # what HAProxy carries there
    door.chat.connect(door.send)

    async def many() -> list[dict[str, Any] | BaseException]:
        wishes = [Wish(f"1234567{number}", "x", None) for number in range(WAITING_PER_SESSION + 1)]
        asked = [asyncio.create_task(door.chat.ask(user(), wish)) for wish in [*wishes, wishes[0]]]
        await whether(lambda: sum(task.done() for task in asked) == 2)
        for wish in wishes:
            door.chat.hear({"answer": f"{'a' * 24}.{wish.id}", "result": {}})
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(many())
    assert [isinstance(each, GatewayError) for each in found] == [False] * WAITING_PER_SESSION + [True, True]


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"desktop": DESKTOP},
        {"desktop": DESKTOP, "talk": []},
        {"answer": "1"},
        {"answer": "1", "error": {"field": 1, "reason": "", "remedy": ""}},
        {"open": []},
    ],
)
def test_what_is_no_part_of_a_chat_is_not_taken(door: Door, document: Any) -> None:
    with pytest.raises(ValueError):
        door.chat.hear(document)


@pytest.mark.parametrize(
    "news",
    [
        {},
        {**talk().news(None), "order": ["unknown"]},
        {**talk().news(None), "order": [1]},
        {**talk().news(None), "messages": [{}]},
        {**talk().news(None), "conversation": 1},
        talk(*(message(str(number)) for number in range(MOST_MESSAGES + 1))).news(None),
    ],
)
def test_what_is_no_news_is_not_taken(news: Any) -> None:
    with pytest.raises(ValueError):
        Talk().after(news)


def test_news_make_the_same_conversation_of_any_before() -> None:
    before, now = talk(message("1"), message("2")), talk(message("2", "more"), message("3"))
    assert before.after(now.news(before)) == now
    assert Talk().after(now.news(None)) == now
    assert now.news(now)["messages"] == []


GOOD = {"id": "12345678", "message": "x", "conversation": None}


def test_wishes_are_understood() -> None:
    assert parse(json.dumps(GOOD).encode()) == Wish("12345678", "x", None)
    assert parse(json.dumps({**GOOD, "conversation": "cv_1"}).encode()) == Wish("12345678", "x", "cv_1")
    assert parse(b'{"id": "12345678", "stop": "cv_1"}') == Wish("12345678", None, "cv_1")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        *(json.dumps({**GOOD, "id": bad}).encode() for bad in ("", "short", "x" * 65, "1234 678", "12345678\n", 1)),
        *(json.dumps({**GOOD, "conversation": bad}).encode() for bad in ("", "a b", "x" * 81, 1)),
        *(json.dumps({**GOOD, "message": bad}).encode() for bad in ("", "  \n", 1, None)),
        b'{"id": "12345678", "stop": null}',
        b'{"id": "12345678"}',
    ],
)
def test_what_is_no_wish_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError) as raised:
        parse(body)
    assert status_of(raised.value) == 400
