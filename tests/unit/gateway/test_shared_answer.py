"""Of many who ask at once each gets an answer that began after the question, and the work is done twice at most."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from deskyard.gateway.shared_answer import SharedAnswer

ASKERS, SECONDS = 8, 60.0


class Work:
    """Work that is numbered, and goes on once it may."""

    def __init__(self) -> None:
        self.begun = [threading.Event() for _ in range(3)]
        self.may_end = threading.Event()
        self.shared = SharedAnswer(self.do)
        self.questions: list[set[int]] = []
        self.fails = False
        self._numbers = count()

    def do(self, questions: Sequence[int]) -> int:
        """The number of this time."""
        number = next(self._numbers)
        self.questions.append(set(questions))
        self.begun[number].set()
        assert self.may_end.wait(SECONDS)
        if self.fails:
            raise ValueError(number)
        return number


class Counted:
    """A lock that counts how often it was let go."""

    def __init__(self) -> None:
        self._lock, self.passed = threading.Lock(), threading.Semaphore(0)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self.passed.release()


def test_those_who_ask_while_it_is_done_share_the_next_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    work, asking = Work(), Counted()
    with ThreadPoolExecutor(ASKERS + 1) as askers:
        first = askers.submit(work.shared.get, -1)
        assert work.begun[0].wait(SECONDS)
        monkeypatch.setattr(work.shared, "_asking", asking)
        later = [askers.submit(work.shared.get, number) for number in range(ASKERS)]
        assert all(asking.passed.acquire(timeout=SECONDS) for _ in later)
        assert not first.done() and not any(answer.done() for answer in later)
        work.may_end.set()
        assert first.result(SECONDS) == 0
        assert {answer.result(SECONDS) for answer in later} == {1}
    assert work.questions == [{-1}, set(range(ASKERS))]


def test_whoever_asks_afterwards_has_it_done_anew() -> None:
    work = Work()
    work.may_end.set()
    assert [work.shared.get(number) for number in range(3)] == [0, 1, 2]
    assert work.questions == [{0}, {1}, {2}]


def test_an_error_is_that_of_those_who_share_it_and_the_next_is_answered() -> None:
    work = Work()
    work.fails = True
    work.may_end.set()
    with pytest.raises(ValueError, match="0"):
        work.shared.get(0)
    work.fails = False
    assert work.shared.get(0) == 1
