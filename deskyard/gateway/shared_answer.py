"""Work that many ask for at once, done once for all of them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """The answer of `work`, which is done once at a time, for all who asked before it began."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._working, self._asking = threading.Lock(), threading.Lock()
        self._next: Future[T] | None = None

    def get(self) -> T:
        """An answer from after this question; raises what the work raises."""
        with self._asking:
            answer, first = self._next, self._next is None
            if answer is None:
                answer = self._next = Future()
        if first:
            self._answer(answer)
        return answer.result()

    def _answer(self, answer: Future[T]) -> None:
        with self._working:
            with self._asking:
                # Who asks from now on may want to know what happens from now on.
                self._next = None
            try:
                answer.set_result(self._work())
            except BaseException as error:
                answer.set_exception(error)
