"""E2B's own asynchronous client, unchanged, on files and processes of a desktop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from e2b import AsyncSandbox, CommandExitException, FileNotFoundException, FilesystemEvent, FilesystemEventType
from e2b.sandbox.commands.command_handle import PtySize

from deskyard.computer.envd.part import Envd
from deskyard.computer.work.part import Work
from tests.unit.computer.serving import home_of, served

Use = Callable[[AsyncSandbox, Path], Awaitable[None]]


async def commands(sandbox: AsyncSandbox, home: Path) -> None:
    assert (await sandbox.commands.run("pwd")).stdout == f"{home}\n"
    command = await sandbox.commands.run("cat; exit 3", background=True, stdin=True)
    assert command.pid in [process.pid for process in await sandbox.commands.list()]
    again = await sandbox.commands.connect(command.pid)
    await sandbox.commands.send_stdin(command.pid, "Hello")
    await command.close_stdin()
    for handle in (command, again):
        with pytest.raises(CommandExitException) as ended:
            await handle.wait()
        assert (ended.value.exit_code, ended.value.stdout) == (3, "Hello")
    other = await sandbox.commands.run("sleep 600", background=True)
    assert await sandbox.commands.kill(other.pid)
    assert not await sandbox.commands.kill(other.pid)


async def files(sandbox: AsyncSandbox, home: Path) -> None:
    assert (await sandbox.files.write("a/b.txt", "Grüße", metadata={"by": "me"})).path == f"{home}/a/b.txt"
    assert await sandbox.files.read("a/b.txt", gzip=True) == "Grüße"
    assert b"".join([part async for part in await sandbox.files.read("a/b.txt", format="stream")]).decode() == "Grüße"
    assert (await sandbox.files.rename("a/b.txt", "a/c.txt")).metadata == {"by": "me"}
    assert [entry.name for entry in await sandbox.files.list("a")] == ["c.txt"]
    await sandbox.files.remove("a")
    assert not await sandbox.files.exists("a")
    with pytest.raises(FileNotFoundException):
        await sandbox.files.get_info("a")


async def watching(sandbox: AsyncSandbox, home: Path) -> None:
    await sandbox.files.make_dir("watched")
    written = asyncio.Event()

    def heard(event: FilesystemEvent) -> None:
        if (event.type, event.name) == (FilesystemEventType.WRITE, "file"):
            written.set()

    handle = await sandbox.files.watch_dir("watched", on_event=heard)
    await sandbox.files.write("watched/file", "x")
    await asyncio.wait_for(written.wait(), 20)
    await handle.stop()  # type: ignore[no-untyped-call]


async def terminals(sandbox: AsyncSandbox, home: Path) -> None:
    said: list[bytes] = []
    terminal = await sandbox.pty.create(PtySize(cols=80, rows=24), on_data=said.append, cwd="/")
    await sandbox.pty.resize(terminal.pid, PtySize(cols=120, rows=24))
    await sandbox.pty.send_stdin(terminal.pid, b"tput cols\nexit 0\n")
    assert (await terminal.wait()).exit_code == 0
    assert b"120" in b"".join(said)


@pytest.mark.parametrize("use", [commands, files, watching, terminals])
def test_the_asynchronous_client_finds_what_it_knows(use: Use, tmp_path: Path) -> None:
    async def connected(url: str, home: Path) -> None:
        await use(await AsyncSandbox.create(debug=True, sandbox_url=url), home)

    with home_of(tmp_path) as home:
        work = Work(home)
        with served([work, Envd(work)]) as url:
            asyncio.run(connected(url, home))
