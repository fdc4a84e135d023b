"""HAProxy's master is away for moments; no session may get lost in one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.session import proxy as proxy_module
from deskyard.gateway.session.proxy import COMMANDS, Proxy, streams_of
from deskyard.gateway.session.store import Session
from tests.unit.gateway.test_store import session

PRIVATE = Path("/run/private.lst")
ID = "A" * 24


class Master:
    """Plays a master with one worker; gives no answer, or `says`, to the first `deaf` commands that hold `word`."""

    def __init__(self, word: str = "", deaf: int = 0, streams: int = 0, says: str = "") -> None:
        self.word, self.deaf, self.streams, self.says = word, deaf, streams, says
        self.workers = "# workers\n8 worker 0\n"
        self.private = self.sessions = ""
        self.heard: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = (await reader.read()).decode().strip().splitlines()
        if any(self.word in command for command in commands) and self.deaf > 0:
            self.deaf -= 1
            writer.write(self.says.encode())
        else:
            self.heard += commands
            writer.write("".join(map(self._answer, commands)).encode())
            await writer.drain()
        writer.close()

    def _answer(self, command: str) -> str:
        if command == "show proc":
            return f"#<PID> <type>\n7 master 0\n{self.workers}"
        if " add server " in command:
            return "New server registered.\n\n"
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
            assert await proxy.admit([session()])

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
            assert not await proxy.admit([session()])
            assert await proxy.admit([session()])

    asyncio.run(body())


@pytest.mark.parametrize(
    "says",
    [
        # What HAProxy 2.6 and 3.0 say.
        "Can't find the target PID matching the prefix '@!8'\n",
        "Can't connect to the target CLI!\n",
        "No such backend.\nNo such backend.\n\n" * 2,
        # Cut off before the last server was enabled, and before the second was added.
        "New server registered.\n\n\nNew server registered.\n\n",
        "New server registered.\n\n\n",
    ],
)
def test_answer_that_does_not_say_that_the_servers_are_there_is_none(
    folder: Path, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body() -> None:
        async with played(Master("add server", deaf=1, says=says), folder) as proxy:
            assert not await proxy.admit([session()])
            assert await proxy.admit([session()])

    asyncio.run(body())
    assert "HAProxy 8 has " in capsys.readouterr().err


def test_server_that_is_there_already_is_as_good(folder: Path) -> None:
    there = "Already exists a server with the same name in backend.\n\n\n" * 2

    async def body() -> None:
        async with played(Master("add server", deaf=1, says=there), folder) as proxy:
            assert await proxy.admit([session()])

    asyncio.run(body())


def test_worker_that_is_leaving_may_refuse_a_server(folder: Path) -> None:
    master = Master("@!9 add server", deaf=1, says="Proxy is disabled.\n\n")
    master.workers += "# old workers\n9 worker 1\n"

    async def body() -> None:
        async with played(master, folder) as proxy:
            assert await proxy.workers() == [8, 9]
            assert await proxy.admit([session()])

    asyncio.run(body())
    assert master.deaf == 0


def test_many_sessions_are_given_their_servers_by_few_connections_the_first_ones_first(folder: Path) -> None:
    sessions = [session(id=f"{number:024}") for number in range(COMMANDS)]
    connections = 0

    class Counting(Master):
        async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await super().__call__(reader, writer)

    master = Counting()

    async def body() -> None:
        async with played(master, folder) as proxy:
            assert await proxy.admit(sessions, [8])

    asyncio.run(body())
    # Two servers of each, and two commands for each of those.
    assert connections == 4
    added = [command.split()[3] for command in master.heard if " add server " in command]
    routes = ("desktop", "terminal")
    assert added == [f"be_d1_{route}/{number:024}" for number in range(COMMANDS) for route in routes]


def test_worker_that_is_silent_is_asked_no_further_and_the_other_one_has_everything(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = [session(id=f"{number:024}") for number in range(COMMANDS)]
    master = Master("@!9 ", deaf=10_000)

    async def body() -> None:
        async with played(master, folder) as proxy:
            assert not await proxy.admit(sessions, [9, 8])
            assert 10_000 - master.deaf == 1
            master.deaf = 0
            assert await proxy.admit(sessions, [9])

    asyncio.run(body())
    for pid in (8, 9):
        added = [command for command in master.heard if command.startswith(f"@!{pid} add server ")]
        assert len(added) == 2 * len(sessions)
    assert capsys.readouterr().err == "HAProxy 9 has 0 of 80 servers that it was given: ''\n"


def test_worker_that_falls_silent_on_its_way_has_what_it_said_and_no_more(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = [session(id=f"{number:024}") for number in range(COMMANDS)]
    # Of the third of four lines.
    master = Master(f"be_d1_desktop/{COMMANDS // 2:024}", deaf=1)

    async def body() -> None:
        async with played(master, folder) as proxy:
            assert not await proxy.admit(sessions, [8])

    asyncio.run(body())
    assert len([command for command in master.heard if " add server " in command]) == COMMANDS
    assert capsys.readouterr().err == "HAProxy 8 has 40 of 80 servers that it was given: ''\n"


def test_worker_that_has_other_words_for_each_line_is_written_down_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = [session(id=f"{number:024}") for number in range(COMMANDS)]
    master = Master("add server", deaf=10_000, says="Proxy is disabled.\n\n")

    async def body() -> None:
        async with played(master, folder) as proxy:
            assert not await proxy.admit(sessions, [8])

    asyncio.run(body())
    # It is given the rest all the same: it answers, and the next line may be of another backend.
    assert 10_000 - master.deaf == 4
    written = capsys.readouterr().err.splitlines()
    assert len(written) == 1
    assert "HAProxy 8 has 0 of 80 servers that it was given: 'Proxy is disabled." in written[0]


def test_session_that_no_worker_was_asked_about_is_not_taken_for_closed(folder: Path) -> None:
    says = "Can't connect to the target CLI!\n"

    async def body() -> None:
        async with played(Master("@!8", deaf=10_000, says=says), folder) as proxy:
            with mock.patch.object(proxy_module, "REFUSE_SECONDS", 0.1):
                assert await proxy.refuse(session(), revoked=True) == 0

    asyncio.run(body())


def test_master_that_is_away_for_a_moment_is_awaited(folder: Path) -> None:
    async def body() -> None:
        async with played(Master("show proc", deaf=3), folder) as proxy:
            assert await proxy.admit([session()])

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


def test_worker_that_closed_all_is_informed_however_late_it_is(folder: Path) -> None:
    async def body() -> None:
        async with played(Master(streams=2), folder) as proxy:
            with mock.patch.object(proxy_module, "REFUSE_SECONDS", 0):
                assert await proxy.refuse(session(), revoked=True) == 1

    asyncio.run(body())


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
            await proxy.admit([session(routes=("terminal",))])
            assert not [command for command in master.heard if "recordings" in command]
            await proxy.admit([session(routes=("desktop",))])
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
            await proxy.admit([other])

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
