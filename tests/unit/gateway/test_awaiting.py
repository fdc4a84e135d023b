"""A want stands while its session lasts and its desktop does not answer, is written down once, and starts nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway import page_news
from deskyard.gateway.awaiting.awaiting import NOTE_AGAIN_SECONDS, PAGES, PAGES_PER_SESSION, PROGRAM_SECONDS, Awaiting
from deskyard.gateway.session.store import Session
from tests.support.clock import Clock
from tests.unit.gateway.support import parsed
from tests.unit.gateway.test_store import session

ALL, NONE = {"desktop": True, "terminal": True}, {"desktop": False, "terminal": False}


class Door:
    """Who waits at a gateway, by a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.notes: list[tuple[str, str]] = []
        self.changes = 0
        self.awaiting = Awaiting(parsed(), self._note, self._tell, self.clock)

    def _note(self, event: str, session: Session, **facts: object) -> None:
        self.notes.append((event, session.id[0]))

    def _tell(self) -> None:
        self.changes += 1


def person(letter: str = "a", **changes: Any) -> Session:
    chosen = {"mode": "drive", "routes": ("desktop", "terminal"), **changes}
    return session(id=letter * 24, **chosen)


def program(letter: str = "p", **changes: Any) -> Session:
    chosen = {"mode": "agent", "routes": ("computer",), "scopes": ("act", "see"), **changes}
    return session(id=letter * 24, **chosen)


def answering(door: Door, session: Session) -> dict[str, bool] | None:
    """Which routes a page is shown as ready; None before anybody has looked."""
    routes = door.awaiting.facts(session)["routes"]
    return routes and {name: route["state"] == "ready" for name, route in routes.items()}


def hear(door: Door, state: str, at: float) -> list[str]:
    """The host's word of the first desktop; of which desktops it is news."""
    return door.awaiting.hear_stages({"d1": {"state": state, "at": at}})["news"]


@pytest.fixture
def door() -> Door:
    return Door()


def test_want_is_young_again_with_each_word_and_one_line_a_minute(door: Door) -> None:
    door.awaiting.join(person())
    for _ in range(7):
        door.awaiting.want(person())
        door.clock.now += NOTE_AGAIN_SECONDS / 3
    assert door.awaiting.wanted("a" * 24) == NOTE_AGAIN_SECONDS / 3
    assert door.notes == [("want", "a")] * 3


@pytest.mark.parametrize("mode", ["view", "agent"])
def test_who_may_not_drive_wants_nothing(door: Door, mode: str) -> None:
    door.awaiting.join(person())
    with pytest.raises(GatewayError, match="may only look on"):
        door.awaiting.want(person(mode=mode))
    assert (door.awaiting.wanted("a" * 24), door.notes) == (None, [])


def test_want_that_cannot_be_written_down_is_none(door: Door) -> None:
    def full(event: str, session: Session, **facts: object) -> None:
        raise GatewayError("disk", None, "is full", "make room")

    awaiting = Awaiting(parsed(), full)
    awaiting.join(person())
    with pytest.raises(GatewayError, match="is full"):
        awaiting.want(person())
    assert awaiting.wanted("a" * 24) is None


def test_want_lasts_as_long_as_a_page_of_its_session_waits(door: Door) -> None:
    with pytest.raises(GatewayError, match="no page of this session waits"):
        door.awaiting.want(person())
    pages = [door.awaiting.join(person()) for _ in range(2)]
    for page in pages:
        assert door.awaiting.wanted("a" * 24) is None or page is pages[1]
        door.awaiting.want(person())
        door.awaiting.leave(page)
    assert door.awaiting.wanted("a" * 24) is None
    # A page that is loaded again and again is one line a minute all the same.
    for _ in range(5):
        page = door.awaiting.join(person())
        door.awaiting.want(person())
        door.awaiting.leave(page)
    assert door.notes == [("want", "a")]


@pytest.mark.parametrize(("found", "took"), [({"desktop": True}, 40), (NONE, None)])
def test_page_that_was_answered_before_all_routes_were_tells_how_long_it_took(
    door: Door, found: dict[str, bool], took: int | None
) -> None:
    page = door.awaiting.join(person())
    door.awaiting.want(person())
    door.clock.now += 40
    door.awaiting.looked("d1", found)
    door.awaiting.leave(page)
    assert door.awaiting.facts(person())["usual_seconds"] == took


def test_wants_end_when_all_routes_answer_and_not_before(door: Door) -> None:
    ann, bob, other = person("a"), person("b"), person("c", desktop="research-2")
    for somebody in (ann, bob, other):
        door.awaiting.join(somebody)
        door.awaiting.want(somebody)
    door.clock.now += 30
    door.awaiting.looked("d1", {"desktop": True, "terminal": False})
    assert answering(door, ann) == {"desktop": True, "terminal": False}
    assert door.awaiting.wanted(ann.id) == 30
    door.awaiting.looked("d1", ALL)
    assert [door.awaiting.wanted(somebody.id) for somebody in (ann, bob, other)] == [None, None, 30]
    assert [door.awaiting.facts(somebody)["usual_seconds"] for somebody in (ann, other)] == [30, None]


def test_others_hear_that_somebody_wants_it_and_that_nobody_does_any_more(door: Door) -> None:
    ann, bob = person("a"), person("b")
    left, page = door.awaiting.join(ann), door.awaiting.join(bob)
    door.awaiting.want(ann)
    door.awaiting.hear()
    assert (door.awaiting.facts(bob)["wanted"], door.awaiting.facts(bob)["heard"]) == (True, True)
    page.news.clear()
    door.awaiting.leave(left)
    assert (door.awaiting.facts(bob)["wanted"], page.news.is_set()) == (False, True)


def test_whoever_waits_hears_what_the_host_made_of_it_and_nobody_else_of_another_time(door: Door) -> None:
    ann, other = person("a"), person("b", desktop="research-2")
    # Nobody wants it: there is nobody to tell.
    assert door.awaiting.tell("d1", "starts") == {"wanted": False}
    page, elsewhere = door.awaiting.join(ann), door.awaiting.join(other)
    door.awaiting.want(ann)
    door.awaiting.want(other)
    assert door.awaiting.facts(ann)["waking"] is None
    for state in ("no-room", "starts"):
        page.news.clear()
        elsewhere.news.clear()
        assert door.awaiting.tell("d1", state) == {"wanted": True}
        assert (door.awaiting.facts(ann)["waking"], page.news.is_set()) == (state, True)
        page.news.clear()
        door.awaiting.tell("d1", state)
        assert (page.news.is_set(), elsewhere.news.is_set()) == (False, False)
    assert door.awaiting.facts(other)["waking"] is None
    door.awaiting.leave(page)
    assert door.awaiting.facts(ann)["waking"] is None
    door.awaiting.join(ann)
    door.awaiting.want(ann)
    assert door.awaiting.facts(ann)["waking"] is None
    with pytest.raises(GatewayError, match="is not known"):
        door.awaiting.tell("d1", "sleeps")


def test_page_hears_where_the_host_has_its_desktop_and_each_change_once(door: Door) -> None:
    page, other = door.awaiting.join(person()), door.awaiting.join(person("b", desktop="research-2"))
    at = int(door.clock.now)
    assert [door.awaiting.facts(person())[name] for name in ("state", "since")] == [None, None]
    for state in ("stopping", "stopped", "io-error"):
        page.news.clear()
        assert hear(door, state, at) == ["d1"]
        assert hear(door, state, at) == []
        assert [door.awaiting.facts(person())[name] for name in ("state", "since")] == [state, at]
        assert page.news.is_set()
    assert (door.awaiting.facts(other.session)["state"], other.news.is_set()) == (None, False)
    assert door.awaiting.hear_stages({"elsewhere": {"state": "stopped", "at": at}}) == {"news": []}
    with pytest.raises(GatewayError, match="is not the host's to say"):
        hear(door, "ready", at)


def test_pages_hear_what_the_host_said_before_a_wrong_word(door: Door) -> None:
    page, at = door.awaiting.join(person()), door.clock.now
    other = next(desktop.name for desktop in parsed().desktops if desktop.name > "d1")
    with pytest.raises(GatewayError):
        door.awaiting.hear_stages({"d1": {"state": "stopped", "at": at}, other: {"state": "ready", "at": at}})
    assert page.news.is_set()


def test_host_that_starts_what_is_wanted_has_it_boot(door: Door) -> None:
    door.awaiting.join(person())
    hear(door, "stopped", door.clock.now)
    door.awaiting.want(person())
    door.clock.now += 5
    door.awaiting.tell("d1", "no-room")
    assert door.awaiting.facts(person())["state"] == "stopped"
    door.awaiting.tell("d1", "starts")
    facts = door.awaiting.facts(person())
    assert (facts["state"], facts["since"]) == ("booting", int(door.clock.now))


def test_desktop_that_starts_boots_for_who_only_looks_on_too_and_where_nobody_wants_it_any_more(door: Door) -> None:
    driver, viewer = door.awaiting.join(person()), door.awaiting.join(person("b", mode="view"))
    hear(door, "stopped", door.clock.now)
    door.awaiting.want(person())
    door.awaiting.leave(driver)
    door.clock.now += 5
    viewer.news.clear()
    assert door.awaiting.tell("d1", "starts") == {"wanted": False}
    facts = door.awaiting.facts(viewer.session)
    assert (facts["state"], facts["since"], facts["waking"]) == ("booting", int(door.clock.now), None)
    assert viewer.news.is_set()
    assert door.awaiting.tell("elsewhere", "starts") == {"wanted": False}


def test_page_of_a_session_that_is_over_is_woken_to_end(door: Door) -> None:
    ended, page = door.awaiting.join(person("a")), door.awaiting.join(person("b"))
    door.awaiting.sweep({"b" * 24})
    assert (ended.news.is_set(), page.news.is_set()) == (True, False)


def test_desktops_are_awaited_while_a_page_waits_with_the_routes_of_people(door: Door) -> None:
    first, second = door.awaiting.join(person("a")), door.awaiting.join(person("b"))
    assert door.awaiting.awaited() == {"d1": {"desktop": ("10.80.1.10", 6080), "terminal": ("10.80.1.10", 7681)}}
    door.awaiting.leave(first)
    assert (door.changes, list(door.awaiting.awaited())) == (1, ["d1"])
    door.awaiting.looked("d1", NONE)
    door.awaiting.leave(second)
    assert (door.changes, door.awaiting.awaited()) == (2, {})
    # What comes late of a look is of no use, and is not kept for whoever waits next.
    door.awaiting.looked("d1", ALL)
    assert answering(door, person()) is None


@pytest.mark.parametrize("said", [{}, {"desktop": 1, "terminal": "yes"}, {"desktop": True, "elsewhere": True}])
def test_route_answers_only_if_the_look_says_so(door: Door, said: dict[str, Any]) -> None:
    door.awaiting.join(person())
    door.awaiting.want(person())
    door.awaiting.looked("d1", said)
    assert answering(door, person()) == {"desktop": said.get("desktop") is True, "terminal": False}
    assert door.awaiting.wanted("a" * 24) is not None


def test_who_watches_hears_of_no_route_that_is_not_theirs(door: Door) -> None:
    watching = person(mode="view", routes=("desktop",))
    door.awaiting.join(watching)
    door.awaiting.looked("d1", NONE)
    assert answering(door, watching) == {"desktop": False}


def test_pages_of_a_session_are_bounded(door: Door) -> None:
    for _ in range(PAGES_PER_SESSION):
        door.awaiting.join(person())
    with pytest.raises(GatewayError, match="wait for a desktop already"):
        door.awaiting.join(person())
    door.awaiting.join(person("b"))
    assert PAGES < 200  # what HAProxy carries there


def test_program_has_no_page(door: Door) -> None:
    with pytest.raises(GatewayError, match="has no page"):
        door.awaiting.join(person(mode="agent"))
    assert door.awaiting.awaited() == {}


def heard(door: Door, changes: list[Callable[[], Any]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a page is told while these things happen, one after each piece of news; then its session is over."""
    monkeypatch.setattr(page_news, "STILL_SECONDS", 0.01)
    page, good = door.awaiting.join(person()), [True]

    async def read() -> list[str]:
        lines: list[str] = []
        read = page_news.changes(lambda: door.awaiting.facts(page.session))
        async for line in page_news.news(page, page_news.Source(read, lambda: None, lambda: good[0])):
            lines.append(line)
            if changes:
                changes.pop(0)()
            else:
                good[0] = False
        return lines

    return asyncio.run(read())


def test_page_is_told_what_changed_and_else_that_somebody_is_there(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = heard(door, [lambda: door.awaiting.want(person()), lambda: None, door.awaiting.hear], monkeypatch)
    assert [line.startswith("data: ") for line in lines] == [True, True, False, True]
    assert ['"wanted": true' in line for line in lines] == [False, True, False, True]
    assert '"heard": true' in lines[-1]
    assert all(line.endswith("\n\n") for line in lines)


def test_want_of_a_program_needs_no_page_and_is_over_when_it_asks_no_more(door: Door) -> None:
    mine = program()
    door.awaiting.want(mine)
    assert (door.awaiting.wanted(mine.id), door.awaiting.facts(mine)["wanted"]) == (0, True)
    assert door.awaiting.is_fresh(mine.id)
    for _ in range(5):
        door.clock.now += PROGRAM_SECONDS - 1
        assert not door.awaiting.is_fresh(mine.id)
        door.awaiting.sweep([mine.id])
        assert door.awaiting.wanted(mine.id) == PROGRAM_SECONDS - 1
        door.awaiting.want(mine)
    door.clock.now += PROGRAM_SECONDS + 1
    door.awaiting.sweep([mine.id])
    assert door.awaiting.wanted(mine.id) is None


def test_want_of_a_program_ends_with_its_session_and_that_of_a_page_stands(door: Door) -> None:
    mine, other = program(), person()
    page = door.awaiting.join(other)
    door.awaiting.want(mine)
    door.awaiting.want(other)
    page.news.clear()
    door.clock.now += PROGRAM_SECONDS + 1
    door.awaiting.sweep([other.id])
    assert (door.awaiting.wanted(mine.id), door.awaiting.wanted(other.id)) == (None, PROGRAM_SECONDS + 1)
    assert page.news.is_set()


def test_program_that_may_only_see_wants_nothing(door: Door) -> None:
    with pytest.raises(GatewayError, match="only look on"):
        door.awaiting.want(program(scopes=("see",)))
    assert door.notes == []


def started_for(door: Door, *sessions: Session) -> None:
    """The host has read that sessions want the first desktop, and starts it."""
    for wanting in sessions:
        if wanting.mode != "agent":
            door.awaiting.join(wanting)
        door.awaiting.want(wanting)
    door.awaiting.hear()
    door.awaiting.tell("d1", "starts")
    door.clock.now += 10


def test_programs_hear_at_once_that_what_started_for_them_was_stopped(door: Door) -> None:
    ann, bot, other = person(), program(), program("q", desktop="research-2")
    door.awaiting.want(other)
    started_for(door, ann, bot)
    hear(door, "stopping", door.clock.now)
    door.awaiting.want(bot)
    hear(door, "stopped", door.clock.now)
    # A person's page shows it, and may go on to wait.
    assert [door.awaiting.wanted(wanting.id) is None for wanting in (ann, bot, other)] == [False, True, False]
    with pytest.raises(GatewayError, match="was stopped after it had been started"):
        door.awaiting.want(bot)
    door.awaiting.want(ann)
    door.awaiting.want(other)
    assert door.awaiting.wanted(bot.id) is None


@pytest.mark.parametrize("how", ["boots", "starts", "later"])
def test_programs_may_want_again_what_was_stopped_once_it_starts_or_time_has_passed(door: Door, how: str) -> None:
    bot = program()
    started_for(door, bot)
    hear(door, "stopped", door.clock.now)
    door.clock.now += PROGRAM_SECONDS if how == "later" else 1
    door.awaiting.sweep({bot.id})
    match how:
        case "boots":
            hear(door, "booting", door.clock.now)
        case "starts":
            door.awaiting.tell("d1", "starts")
    door.awaiting.want(bot)
    assert door.awaiting.wanted(bot.id) == 0


@pytest.mark.parametrize("before", ["nothing", "no-room", "an old word", "no want"])
def test_want_stands_that_was_not_started_when_its_desktop_stopped(door: Door, before: str) -> None:
    bot, at = program(), door.clock.now
    if before == "no want":
        door.awaiting.tell("d1", "starts")
    else:
        door.awaiting.want(bot)
    door.clock.now += 10
    if before == "no-room":
        door.awaiting.tell("d1", "no-room")
    if before == "an old word":
        door.awaiting.tell("d1", "starts")
    hear(door, "stopped", at if before == "an old word" else door.clock.now)
    door.awaiting.want(bot)
    assert door.awaiting.wanted(bot.id) == 0
