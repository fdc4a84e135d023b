"""A gateway is told the newest state of each desktop, and one that does not answer holds up nobody."""

import queue
import threading
from collections.abc import Iterator, Mapping

import pytest

from deskyard.errors import SiteError
from deskyard.life.events import Event
from deskyard.life.stage_news import StageNews
from deskyard.wire.stages import Stage

SECONDS = 20.0
Stages = Mapping[str, tuple[Stage, float]]


class Gateway:
    """A gateway that answers each word when it is let; it may refuse."""

    def __init__(self) -> None:
        self.heard: queue.Queue[Stages] = queue.Queue()
        self.lets = threading.Semaphore(0)
        self.refuses = False

    def tell(self, name: str, stages: Stages) -> None:
        self.heard.put(dict(stages))
        assert self.lets.acquire(timeout=SECONDS)
        if self.refuses:
            raise SiteError("gateway", name, "does not answer", "see ./inv workspace.status")

    def hears(self) -> Stages:
        """What it is told next, and then answers."""
        stages = self.heard.get(timeout=SECONDS)
        self.lets.release()
        return stages


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def news(gateway: Gateway) -> Iterator[StageNews]:
    with StageNews("lab", gateway.tell) as news:
        yield news


def event(desktop: str, stage: Stage, at: float) -> Event:
    return Event("lab", desktop, stage, at)


def test_newest_of_each_desktop_is_told_together_while_a_gateway_is_slow(gateway: Gateway, news: StageNews) -> None:
    news.note(event("dev1", Stage.STOPPING, 1.0))
    first = gateway.heard.get(timeout=SECONDS)
    # Nobody waits for it meanwhile.
    news.note(event("dev1", Stage.STOPPED, 2.0))
    news.note(event("dev2", Stage.PAUSED, 3.0))
    news.note(event("dev2", Stage.IO_ERROR, 4.0))
    gateway.lets.release()
    assert first == {"dev1": (Stage.STOPPING, 1.0)}
    assert gateway.hears() == {"dev1": (Stage.STOPPED, 2.0), "dev2": (Stage.IO_ERROR, 4.0)}


def test_desktop_that_boots_is_told_of_once_however_many_routes_answer(gateway: Gateway, news: StageNews) -> None:
    news.note(event("dev1", Stage.BOOTING, 1.0))
    assert gateway.hears() == {"dev1": (Stage.BOOTING, 1.0)}
    news.note(event("dev1", Stage.BOOTING, 2.0))
    news.note(event("dev2", Stage.STOPPED, 3.0))
    assert gateway.hears() == {"dev2": (Stage.STOPPED, 3.0)}
    # It begins anew once it was ready, or off.
    news.note(event("dev1", Stage.READY, 4.0))
    news.note(event("dev1", Stage.BOOTING, 5.0))
    assert gateway.hears() == {"dev1": (Stage.BOOTING, 5.0)}


def test_all_is_told_again_but_what_is_ready(gateway: Gateway, news: StageNews) -> None:
    gateway.refuses = True
    news.note(event("dev1", Stage.STOPPED, 1.0))
    assert gateway.hears() == {"dev1": (Stage.STOPPED, 1.0)}
    news.note(event("dev2", Stage.BOOTING, 2.0))
    assert gateway.hears() == {"dev2": (Stage.BOOTING, 2.0)}
    gateway.refuses = False
    news.again()
    assert gateway.hears() == {"dev1": (Stage.STOPPED, 1.0), "dev2": (Stage.BOOTING, 2.0)}
    news.note(event("dev2", Stage.READY, 3.0))
    news.again()
    assert gateway.hears() == {"dev1": (Stage.STOPPED, 1.0)}
    assert gateway.heard.empty()


def test_nothing_is_told_once_nobody_follows_any_more(gateway: Gateway) -> None:
    before = set(threading.enumerate())
    with StageNews("lab", gateway.tell) as news:
        (thread,) = set(threading.enumerate()) - before
    news.note(event("dev1", Stage.STOPPED, 1.0))
    thread.join(SECONDS)
    assert not thread.is_alive() and gateway.heard.empty()
