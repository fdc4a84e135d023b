"""Work that many ask for at once, done once for all of their questions."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Q = TypeVar("Q")
T = TypeVar("T")


class SharedAnswer(Generic[Q, T]):
    """The answer of `work`, which is done once at a time, for all questions that were asked before it began."""

    def __init__(self, work: Callable[[Sequence[Q]], T]) -> None:
        self._work = work
        self._working, self._asking = threading.Lock(), threading.Lock()
        self._next: tuple[Future[T], list[Q]] | None = None

    def get(self, question: Q) -> T:
        """An answer to this question among others, from after it; raises what the work raises."""
        with self._asking:
            first = self._next is None
            answer, questions = self._next = self._next or (Future(), [])
            questions.append(question)
        if first:
            self._answer(answer, questions)
        return answer.result()

    def _answer(self, answer: Future[T], questions: Sequence[Q]) -> None:
        with self._working:
            with self._asking:
                # Who asks from now on may want to know what happens from now on.
                self._next = None
            try:
                answer.set_result(self._work(questions))
            except BaseException as error:
                answer.set_exception(error)
