"""Every worker of HAProxy is brought in line with what people want, whatever it missed."""

import asyncio
from pathlib import Path

import pytest

from deskyard.gateway.session.shutter import Shutter

LISTED = Path("/run/stopped.lst")


class Doors:
    """Workers, each with what it holds; those that are deaf answer nothing."""

    def __init__(self, **held: set[str]) -> None:
        self.held = {int(name.removeprefix("w")): shut for name, shut in held.items()}
        self.deaf: set[int] = set()
        self.cut: list[tuple[int, str]] = []
        self.asked = 0

    async def workers(self) -> list[int]:
        return list(self.held)

    async def shut(self, pid: int, listed: Path) -> set[str] | None:
        assert listed == LISTED
        self.asked += 1
        return None if pid in self.deaf else set(self.held[pid])

    async def hide(self, pid: int, listed: Path, desktop: str) -> bool:
        self.cut.append((pid, desktop))
        self.held[pid].add(desktop)
        return pid not in self.deaf

    async def show(self, pid: int, listed: Path, desktop: str) -> bool:
        self.held[pid].discard(desktop)
        return pid not in self.deaf


def settled(shutter: Shutter) -> bool:
    return asyncio.run(shutter.settle())


def test_workers_take_what_is_wanted_and_are_asked_no_more() -> None:
    doors, wanted = Doors(w1=set(), w2=set()), {"d1"}
    shutter = Shutter(doors, LISTED, lambda: wanted)
    assert settled(shutter)
    assert doors.held == {1: {"d1"}, 2: {"d1"}}
    assert shutter.is_on("d1")
    assert not shutter.is_on("d2")
    asked = doors.asked
    assert settled(shutter)
    assert doors.asked == asked
    wanted.clear()
    assert not shutter.is_on("d1")
    assert settled(shutter)
    assert doors.held == {1: set(), 2: set()}


def test_worker_that_read_what_was_so_before_it_began_is_corrected() -> None:
    doors = Doors(w1={"d2"})
    shutter = Shutter(doors, LISTED, lambda: {"d1"})
    assert settled(shutter)
    assert doors.held[1] == {"d1"}
    doors.held[2] = {"d2", "d3"}
    assert settled(shutter)
    assert doors.held[2] == {"d1"}


def test_what_was_open_is_cut_also_where_the_desktop_is_shut_already() -> None:
    doors = Doors(w1={"d1"})
    assert settled(Shutter(doors, LISTED, lambda: {"d1"}))
    assert doors.cut == [(1, "d1")], "a service that has just begun knows not whether that was done"


def test_worker_that_does_not_answer_is_asked_again_and_until_then_it_is_not_on() -> None:
    doors = Doors(w1=set(), w2=set())
    shutter = Shutter(doors, LISTED, lambda: {"d1"})
    doors.deaf = {2}
    assert not settled(shutter)
    assert not shutter.is_on("d1")
    doors.deaf = set()
    assert settled(shutter)
    assert shutter.is_on("d1")


def test_gateway_without_workers_is_not_taken_for_one_that_hides() -> None:
    doors = Doors()
    shutter = Shutter(doors, LISTED, lambda: {"d1"})
    assert settled(shutter)
    assert not shutter.is_on("d1")


@pytest.mark.parametrize("first", [True, False])
def test_last_of_what_is_wanted_at_once_is_what_holds(first: bool) -> None:
    doors, wanted = Doors(w1=set() if first else {"d1"}), {"d1"} if first else set()

    async def body() -> None:
        shutter = Shutter(doors, LISTED, lambda: wanted)
        settling = asyncio.gather(shutter.settle(), shutter.settle())
        await asyncio.sleep(0)
        (wanted.discard if first else wanted.add)("d1")
        await asyncio.gather(settling, shutter.settle())

    asyncio.run(body())
    assert doors.held == {1: wanted}
