"""A desktop is looked at while somebody waits for it, and a hostile one holds up no other."""

import asyncio
import threading
from typing import Any

import pytest

from deskyard.gateway import probe
from deskyard.gateway.probe import Answered
from deskyard.gateway.view import lookouts
from deskyard.gateway.view.lookouts import Lookouts

PLACES = {"desktop": ("192.0.2.1", 6080), "terminal": ("192.0.2.1", 7681)}


class Seen:
    """What lookouts say, and the moment when a desktop was looked at so often."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, bool]]] = []
        self.news = asyncio.Condition()

    def __call__(self, desktop: str, answering: dict[str, bool]) -> None:
        self.said.append((desktop, answering))
        asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def of(self, desktop: str, count: int) -> list[dict[str, bool]]:
        """What was said of a desktop, when that is so much."""

        def found() -> list[dict[str, bool]]:
            return [answering for name, answering in self.said if name == desktop]

        async with asyncio.timeout(20), self.news:
            await self.news.wait_for(lambda: len(found()) >= count)
        return found()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookouts, "PAUSE_SECONDS", 0.001)


def play(monkeypatch: pytest.MonkeyPatch, answers: Any, body: Any) -> None:
    def look(name: str, address: str, port: int, timeout: float) -> Answered:
        return Answered(answers(name, address), "", 0)

    monkeypatch.setattr(probe, "route", look)

    async def run() -> None:
        seen = Seen()
        await body(seen, Lookouts(seen))

    asyncio.run(run())


def test_each_look_says_which_routes_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(seen: Seen, looking: Lookouts) -> None:
        looking.send({"d1": PLACES})
        assert (await seen.of("d1", 2))[0] == {"desktop": False, "terminal": True}
        looking.send({})
        while looking._tasks:
            await asyncio.wait(set(looking._tasks.values()), timeout=20)
        before = len(seen.said)
        # Awaited again, it is looked at again.
        looking.send({"d1": PLACES})
        await seen.of("d1", before + 1)
        looking.send({})

    play(monkeypatch, lambda name, _: name == "terminal", body)


def test_desktop_that_holds_its_answer_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()

    def answers(name: str, address: str) -> bool:
        return held.wait(20) if address == "192.0.2.9" else True

    async def body(seen: Seen, looking: Lookouts) -> None:
        looking.send({"slow": {"desktop": ("192.0.2.9", 6080)}, "d1": PLACES})
        await seen.of("d1", 3)
        assert not [desktop for desktop, _ in seen.said if desktop == "slow"]
        held.set()
        await seen.of("slow", 1)
        looking.send({})

    play(monkeypatch, answers, body)
