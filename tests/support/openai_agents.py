"""A stand-in of the package `openai-agents`, as far as a computer is concerned: two classes that are to be filled.

The lock has not that package; tests/computer/test_openai_agents.py asks the package itself, too (`./inv check.deep`).
"""

from abc import ABCMeta, abstractmethod
from types import ModuleType
from typing import Any

ACTIONS = ("screenshot", "click", "double_click", "scroll", "type", "wait", "move", "keypress", "drag")
# These need no filling: what the older tool alone is asked for.
OPTIONAL = ("environment", "dimensions")


class _Empty(metaclass=ABCMeta):
    @abstractmethod
    def action(self, *_: Any) -> Any:
        """To be filled."""


def package() -> ModuleType:
    """The package, to be imported as `agents`."""
    module = ModuleType("agents")
    for name in ("Computer", "AsyncComputer"):
        parts = dict.fromkeys(ACTIONS, _Empty.action) | dict.fromkeys(OPTIONAL, property(lambda _: None))
        setattr(module, name, ABCMeta(name, (), parts))
    return module
