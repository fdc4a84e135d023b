"""Asks a cluster's nodes or machines all at once: one after the other would take as long as the cluster is large."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
# Requests under way to one API: pveproxy has three workers by default.
AT_ONCE = 8


def ask_each(asked: Iterable[Asked], ask: Callable[[Asked], Answer]) -> list[tuple[Asked, Answer]]:
    """Each with its answer, in their order; raises what the first that failed in that order raised."""
    questions = list(asked)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(zip(questions, pool.map(ask, questions), strict=True))
