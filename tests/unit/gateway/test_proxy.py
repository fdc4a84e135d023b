"""HAProxy's master is away for moments; no session may get lost in one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.session.proxy import Proxy, streams_of
from deskyard.gateway.session.store import Session
from tests.unit.gateway.test_store import session

PRIVATE = Path("/run/private.lst")
ID = "A" * 24


class Master:
    """Plays a master with one worker; gives no answer to the first `deaf` commands that hold `word`."""

    def __init__(self, word: str = "", deaf: int = 0, streams: int = 0) -> None:
        self.word, self.deaf, self.streams = word, deaf, streams
        self.private = self.sessions = ""
        self.heard: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        command = (await reader.read()).decode().strip()
        if self.word in command and self.deaf > 0:
            self.deaf -= 1
        else:
            self.heard.append(command)
            writer.write(self._answer(command).encode())
            await writer.drain()
        writer.close()

    def _answer(self, command: str) -> str:
        if command == "show proc":
            return "#<PID> <type>\n7 master 0\n# workers\n8 worker 0\n"
        if command.endswith("show acl /run/private.lst"):
            return f"# acl\n0x5d {self.private}\n" if self.private else "\n"
        if command.endswith("show sess") and self.streams:
            self.streams -= 1
            return self.sessions or f"0x1f: proto=tcpv4 src=1.2.3.4:5 fe=door be=be_d1_desktop srv={ID} ts=00\n"
        return "\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:  # the path of a socket must be short
        yield Path(name)


@asynccontextmanager
async def played(master: Master, folder: Path, also: dict[tuple[str, str], str] | None = None) -> AsyncIterator[Proxy]:
    server = await asyncio.start_unix_server(master, str(folder / "m.sock"))
    addresses = {("d1", "desktop"): "10.0.0.1:6080 weight 0", ("d1", "terminal"): "10.0.0.1:7681 weight 0"}
    yield Proxy(folder / "m.sock", Path("/run/revoked.lst"), {**addresses, **(also or {})})
    server.close()


def test_session_gets_a_weightless_server_for_each_route(folder: Path) -> None:
    master = Master()

    async def body() -> None:
        async with played(master, folder) as proxy:
            assert await proxy.admit(session())

    asyncio.run(body())
    assert master.heard[1:] == [
        f"@!8 add server be_d1_desktop/{ID} 10.0.0.1:6080 weight 0",
        f"@!8 enable server be_d1_desktop/{ID}",
        f"@!8 add server be_d1_terminal/{ID} 10.0.0.1:7681 weight 0",
        f"@!8 enable server be_d1_terminal/{ID}",
    ]


@pytest.mark.parametrize("word", ["add server", "enable server"])
def test_server_that_was_not_taken_is_noticed(folder: Path, word: str) -> None:
    async def body() -> None:
        async with played(Master(word, deaf=1), folder) as proxy:
            assert not await proxy.admit(session())
            assert await proxy.admit(session())

    asyncio.run(body())


def test_master_that_is_away_for_a_moment_is_awaited(folder: Path) -> None:
    async def body() -> None:
        async with played(Master("show proc", deaf=3), folder) as proxy:
            assert await proxy.admit(session())

    asyncio.run(body())


@pytest.mark.parametrize("word", ["add acl", "show sess"])
def test_revocation_is_repeated_until_the_worker_answered(folder: Path, word: str) -> None:
    master = Master(word, deaf=2, streams=2)

    async def body() -> None:
        async with played(master, folder) as proxy:
            assert await proxy.refuse(session(), revoked=True) == 1

    asyncio.run(body())
    assert f"@!8 add acl /run/revoked.lst {ID}" in master.heard
    assert master.heard.count("@!8 shutdown session 0x1f") == 2
    assert f"@!8 del server be_d1_desktop/{ID}" in master.heard


def test_proxy_that_does_not_run_is_not_taken_for_a_closed_socket(folder: Path) -> None:
    proxy = Proxy(folder / "absent.sock", Path("/run/revoked.lst"), {})
    assert asyncio.run(proxy.refuse(session(), revoked=True)) == 0


def test_only_streams_of_the_session_are_found() -> None:
    listing = "\n".join(
        f"0x{n}: proto=tcpv4 fe=door be=b srv={name} ts=00" for n, name in enumerate([ID, ID + "B", "x"])
    )
    assert streams_of(listing, ID) == ["0x0"]
    with pytest.raises(GatewayError):
        streams_of(listing, ".*")


def test_who_has_the_screen_has_a_server_for_the_recordings_and_loses_it_with_the_session(folder: Path) -> None:
    master = Master()
    place = {("d1", "recordings"): "10.0.0.1:6090 weight 0"}

    async def body() -> None:
        async with played(master, folder, place) as proxy:
            await proxy.admit(session(routes=("terminal",)))
            assert not [command for command in master.heard if "recordings" in command]
            await proxy.admit(session(routes=("desktop",)))
            await proxy.refuse(session(routes=("desktop",)), revoked=True)

    asyncio.run(body())
    assert f"@!8 add server be_d1_recordings/{ID} 10.0.0.1:6090 weight 0" in master.heard
    assert f"@!8 shutdown sessions server be_d1_recordings/{ID}" in master.heard
    assert f"@!8 del server be_d1_recordings/{ID}" in master.heard


def test_session_of_another_desktop_is_given_nothing(folder: Path) -> None:
    master = Master()
    other: Session = session(desktop="d9")

    async def body() -> None:
        async with played(master, folder) as proxy:
            await proxy.admit(other)

    asyncio.run(body())
    assert master.heard == ["show proc"]


def hidden(folder: Path, master: Master) -> bool:
    async def body() -> bool:
        async with played(master, folder) as proxy:
            return await proxy.hide(8, PRIVATE, "d1")

    return asyncio.run(body())


def test_programs_of_a_hidden_desktop_and_who_looks_back_are_cut_and_nobody_else(folder: Path) -> None:
    master = Master(streams=2)
    master.private = "d1"
    master.sessions = (
        f"0x1a: proto=tcpv4 src=1.2.3.4:5 fe=door be=be_d1_computer srv={ID} ts=00\n"
        f"0x2b: proto=tcpv4 src=1.2.3.4:6 fe=door be=be_d1_desktop srv={ID} ts=00\n"
        f"0x3c: proto=tcpv4 src=1.2.3.4:7 fe=door be=be_d10_computer srv={ID} ts=00\n"
        f"0x4d: proto=tcpv4 src=1.2.3.4:8 fe=door be=be_d1_computer srv=<none> ts=00\n"
        f"0x5e: proto=tcpv4 src=1.2.3.4:9 fe=door be=be_d1_recordings srv={ID} ts=00\n"
    )
    assert hidden(folder, master)
    assert master.heard[0] == "@!8 add acl /run/private.lst d1"
    cut = [command for command in master.heard if "shutdown" in command]
    assert set(cut) == {f"@!8 shutdown session {stream}" for stream in ("0x1a", "0x4d", "0x5e")}


@pytest.mark.parametrize(("word", "private"), [("", ""), ("", "d2"), ("show acl", "d1"), ("show sess", "d1")])
def test_worker_that_does_not_say_that_it_hides_a_desktop_does_not(folder: Path, word: str, private: str) -> None:
    master = Master(word, deaf=1)
    master.private = private
    assert not hidden(folder, master)
