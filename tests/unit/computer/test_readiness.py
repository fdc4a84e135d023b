"""A window that goes, or gets another title, while it is asked whether it takes keys is not ready, and no error."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.computer.accessibility import readiness
from deskyard.computer.accessibility.readiness import Readiness

WINDOW: dict[str, Any] = {"id": 7, "pid": 1, "title": "LibreOffice", "focused": True, "geometry": [0, 0, 10, 10]}


@pytest.mark.parametrize(("roots", "toolkit", "ready"), [([], "gtk", False), (["there"], "gtk", True)])
def test_window_that_got_another_title_meanwhile_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch, roots: list[str], toolkit: str, ready: bool
) -> None:
    asked: list[list[str]] = [["there"], roots]

    class Search:
        def __init__(self, *_: Any) -> None: ...

        async def roots(self, _: Any) -> list[Any]:
            return [SimpleNamespace(owner=owner) for owner in asked.pop(0)]

        async def find(self, sought: Any, _: bool) -> Any:
            return SimpleNamespace(nodes=[{"id": "a/b", "name": ""}] if sought.states else [])

    async def toolkit_name(*_: Any) -> str:
        return toolkit

    connected = SimpleNamespace(is_set=lambda: True)
    bus: Any = SimpleNamespace(connected=connected, property=toolkit_name)
    log: Any = SimpleNamespace(drawn=lambda _: time.monotonic())
    monkeypatch.setattr(readiness, "Search", Search)
    state = asyncio.run(Readiness(bus, log, lambda: None)._state(WINDOW, time.monotonic()))  # type: ignore[arg-type,return-value]
    assert (state is not None) == ready and asked == []
