"""Watches of directories: who listens keeps a watch, and it ends with the directory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from deskyard.computer.application import create
from deskyard.computer.problem import Problem
from deskyard.computer.work import inotify, watches
from deskyard.computer.work.part import Work
from deskyard.computer.work.watches import Change, Watches

PATIENCE = 60


@contextlib.asynccontextmanager
async def listening(watched: Watches, root: Path) -> AsyncIterator["asyncio.Task[list[Change]]"]:
    """The next changes of a watch that nothing has happened to for long."""
    name, watch = watched.start(root, recursive=False)
    changes = asyncio.create_task(watch.next())
    await asyncio.wait([changes], timeout=0)
    watch.asked -= 2 * watches.FORGOTTEN_SECONDS
    try:
        yield changes
    finally:
        watched.stop(name)
        await changes


def test_a_watch_that_is_listened_to_gives_way_to_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MOST_WATCHES", 2)

    async def scenario() -> None:
        watched = Watches()
        async with listening(watched, tmp_path) as first:
            polled, watch = watched.start(tmp_path, recursive=False)
            watch.asked -= 2 * watches.FORGOTTEN_SECONDS
            async with listening(watched, tmp_path) as last:
                with pytest.raises(Problem, match="does not exist"):
                    watched.find(polled)
                with pytest.raises(Problem, match="would be more than 2"):
                    watched.start(tmp_path, recursive=False)
                (tmp_path / "new").mkdir()
                for changes in (first, last):
                    assert Change("created", "new") in await asyncio.wait_for(changes, PATIENCE)
        watched.stop(polled)

    asyncio.run(scenario())


def test_a_watch_ends_with_its_directory(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    async def scenario() -> list[list[Change]]:
        watched = Watches()
        _, watch = watched.start(root, recursive=True)
        root.rmdir()
        root.mkdir()
        (root / "of-another").touch()
        return [await asyncio.wait_for(watch.next(), PATIENCE), await asyncio.wait_for(watch.next(), PATIENCE)]

    first, last = asyncio.run(scenario())
    assert (first[-1], last) == (Change("removed", ""), [])
    assert not [change for change in first if change.path]


def test_a_watch_ends_with_the_file_system_of_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[list[Change]]:
        _, watch = Watches().start(tmp_path, recursive=False)
        (number,) = watch._directories
        said = [inotify.Happening(number, mask, 0, "") for mask in (inotify.UNMOUNT, inotify.IGNORED, inotify.MODIFY)]
        monkeypatch.setattr(inotify, "read", lambda queue: iter(said))
        return [await asyncio.wait_for(watch.next(), PATIENCE), await asyncio.wait_for(watch.next(), PATIENCE)]

    assert asyncio.run(scenario()) == [[Change("removed", "")], []]


def test_a_standing_watch_whose_directory_goes_leaves_its_place(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()

    async def scenario() -> None:
        work = Work(tmp_path)
        transport = httpx.ASGITransport(create([work]), client=("127.0.0.1", 1))
        async with work.running(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            begun = (await client.post("/v1/files/watches", json={"path": "root"})).json()
            (tmp_path / "root").rmdir()
            await asyncio.wait_for(work._standing.ended(), PATIENCE)
            assert (await client.get("/v1/files/watches")).json() == {"watches": []}
            with pytest.raises(Problem, match="does not exist"):
                work.watches.find(begun["id"])

    asyncio.run(scenario())
