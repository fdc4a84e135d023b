"""The remnant that a killed task has left beside a desktop."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Remnant:
    """A thing of a desktop that no task will take away any more; `what` names it for people, `remove` removes it."""

    desktop: str
    what: str
    remove: Callable[[], None]
