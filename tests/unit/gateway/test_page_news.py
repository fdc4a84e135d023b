"""The open pages of one kind: their bounds, whose they are, and which of them hear of news."""

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.page_news import Page, Pages
from tests.unit.gateway.test_store import session


class Door:
    """Two pages a session, three altogether; `changes` has the desktops with a page after each change of these."""

    def __init__(self) -> None:
        self.changes: list[set[str]] = []
        self.pages = Pages(2, 3, lambda: self.changes.append(self.pages.desktops()))

    def join(self, id: str, desktop: str = "d1") -> Page:
        return self.pages.join(session(id=id, desktop=desktop), "are open already", "close one")


@pytest.fixture
def door() -> Door:
    return Door()


def news_of(*pages: Page) -> list[bool]:
    return [page.news.is_set() for page in pages]


def test_pages_are_bounded_for_a_session_and_altogether(door: Door) -> None:
    first = door.join("a")
    door.join("a")
    with pytest.raises(GatewayError, match="2: are open already"):
        door.join("a")
    door.join("b")
    with pytest.raises(GatewayError, match="3: are open already"):
        door.join("c")
    door.pages.leave(first)
    door.join("c")
    assert len(door.pages.of("a")) == 1


def test_a_change_is_that_a_desktop_has_its_first_page_or_no_page_any_more(door: Door) -> None:
    pages = [door.join("a"), door.join("b"), door.join("c", "d2")]
    assert door.changes == [{"d1"}, {"d1", "d2"}]
    for page in pages:
        door.pages.leave(page)
    # Leaving twice is leaving.
    door.pages.leave(pages[0])
    assert door.changes[2:] == [{"d2"}, set()]


def test_news_of_a_desktop_is_for_its_own_pages(door: Door) -> None:
    first, second = door.join("a"), door.join("b", "d2")
    door.pages.tell({"d2", "d3"})
    assert news_of(first, second) == [False, True]


def test_pages_of_sessions_that_are_over_are_woken(door: Door) -> None:
    first, second = door.join("a"), door.join("b")
    door.pages.sweep({"b"})
    assert news_of(first, second) == [True, False]
