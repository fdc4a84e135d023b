"""Tasks that move machines take turns: each machine has one at a time, and a change of the workspace has all."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from deskyard.host import lock
from deskyard.workspace import turn
from tests.desktop.lab import planned

PLAN = planned("dev1", "dev2")
SECONDS = 30
NOTICED = threading.Event()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a person who waits is told."""
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        NOTICED.set()

    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(lock, "say", say)
    NOTICED.clear()
    return said


@contextmanager
def another(context: AbstractContextManager[None]) -> Iterator[threading.Event]:
    """A second task that wants its turn; the event says that it has it."""
    has_it = threading.Event()

    def take() -> None:
        with context:
            has_it.set()

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield has_it
    finally:
        thread.join(SECONDS)
        assert not thread.is_alive()


def change() -> AbstractContextManager[None]:
    return turn.whole(PLAN.site, PLAN.name)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (change(), turn.of(PLAN, "dev1")),
        (turn.of(PLAN, "dev1"), change()),
        (turn.of(PLAN, "dev1"), turn.of(PLAN, "dev1")),
    ],
    ids=["change then stop", "stop then change", "two stops"],
)
def test_second_task_waits_for_the_first_and_says_so(
    said: list[str], first: AbstractContextManager[None], second: AbstractContextManager[None]
) -> None:
    with ExitStack() as both:
        held = both.enter_context(ExitStack())
        held.enter_context(first)
        has_it = both.enter_context(another(second))
        both.callback(held.close)
        assert NOTICED.wait(SECONDS)
        assert not has_it.is_set()
        held.close()
        assert has_it.wait(SECONDS)
    assert len(said) == 1
    assert "waiting for its end" in said[0]


def test_two_machines_of_a_workspace_are_moved_at_once(said: list[str]) -> None:
    with turn.of(PLAN, "dev1"), another(turn.of(PLAN, "dev2")) as has_it:
        assert has_it.wait(SECONDS)
    assert said == []


def test_another_workspace_does_not_wait(said: list[str]) -> None:
    with change(), another(turn.whole(PLAN.site, "other")) as has_it:
        assert has_it.wait(SECONDS)
    assert said == []
