"""A task that waits for its turn at a desktop while another moves it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from deskyard.host import lock
from deskyard.workspace import turn
from tests.unit.life.machines import PLAN

WAIT_SECONDS = 30.0


@contextmanager
def waiting(desktop: str, task: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within, the task waits for its turn at this desktop, which is another's; after it, the task has ended."""
    waits, failed = threading.Event(), list[BaseException]()
    monkeypatch.setattr(lock, "say", lambda _: waits.set())

    def run() -> None:
        try:
            task()
        except BaseException as error:
            failed.append(error)
            waits.set()

    thread = threading.Thread(target=run)
    with turn.of(PLAN, desktop):
        thread.start()
        assert waits.wait(WAIT_SECONDS) and not failed, failed
        yield
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive() and not failed, failed
