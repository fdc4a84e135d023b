"""Talks to the running HAProxy through its master socket: gives sessions their servers, and takes them away.

Everything goes to every worker: after a reload the old ones live on for as long as their sockets do.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from deskyard.errors import GatewayError
from deskyard.gateway.session.store import Session
from deskyard.wire.routes import COMPUTER, RECORDINGS, backends_of

SECOND_SWEEP_SECONDS = 0.2
ROUNDS = 20
ANSWER_SECONDS = 2
FURTHER_SECONDS = 0.1  # for each further command of a line: where a host starves it takes 30 times its 3 ms
MASTER_AWAY_SECONDS = 2
REFUSE_SECONDS = 5
LINES = 8  # at once; others wait, so that many sessions do not crowd the master
COMMANDS = 40  # in one line: a connection for each takes three times as long (HAProxy 3.0, 9 ms and 3 ms a command)
HAS_SERVER = ("New server registered.", "Already exists a server with the same name")
ENABLED = "\n\n\n"  # words of the last `add server`, and none of the last `enable server`: all was done
# The master's own words, where it asked no worker.
NOT_ASKED = ("Can't find the target", "Can't connect to the target")
REMEDY = "look at `systemctl status haproxy` in the gateway"


def backend(desktop: str, route: str) -> str:
    """The name of the backend of a desktop's route."""
    return f"be_{desktop}_{route}"


class Proxy:
    """A running HAProxy. `addresses` maps (desktop, backend) to the address and options of a session's server there."""

    def __init__(self, socket: Path, revoked_file: Path, addresses: dict[tuple[str, str], str]) -> None:
        self._socket = socket
        self._revoked_file = revoked_file
        self._addresses = addresses
        self._lines = asyncio.Semaphore(LINES)
        self._leaving: set[int] = set()

    async def workers(self) -> list[int]:
        """Process ids of the workers, old ones too; empty if HAProxy does not run."""
        try:
            answer = await self._ask("show proc")
        except (OSError, TimeoutError):
            return []
        current, _, old = answer.partition("# old workers")
        self._leaving = set(_workers_in(old))
        return [*_workers_in(current), *self._leaving]

    async def admit(self, sessions: Sequence[Session], workers: Sequence[int] | None = None) -> bool:
        """Give sessions their own servers; false if a worker did not take all of them, and must be asked again."""
        pids = workers if workers is not None else await self._workers_patiently()
        servers = [
            (f"{backend(session.desktop, route)}/{session.id}", address)
            for session in sessions
            for route in backends_of(session.routes)
            if (address := self._addresses.get((session.desktop, route))) is not None
        ]
        taken = await asyncio.gather(*(self._add(pid, servers) for pid in pids))
        return bool(pids) and all(taken)

    async def _add(self, pid: int, servers: Sequence[tuple[str, str]]) -> bool:
        """Add servers to one worker, the first ones first; false if it does not say of each that it is there.

        One that gives no answer is asked no further: it would be waited for anew with each line.
        """
        there, lacking = 0, list[str]()
        for first in range(0, len(servers), COMMANDS // 2):
            some = servers[first : first + COMMANDS // 2]
            pairs = [(f"add server {server} {address}", f"enable server {server}") for server, address in some]
            answer = await self._tell(pid, *(command for pair in pairs for command in pair))
            if answer is None:
                lacking.append("")
                break
            taken = sum(answer.count(words) for words in HAS_SERVER) if answer.endswith(ENABLED) else 0
            there += taken
            # One that is leaving takes no connection any more, and may have other words.
            if taken != len(some) and pid not in self._leaving:
                lacking.append(answer)
        if lacking:
            said = f"HAProxy {pid} has {there} of {len(servers)} servers that it was given: {lacking[0][:200]!r}"
            print(said, file=sys.stderr, flush=True)
        return not lacking

    async def refuse(self, session: Session, *, revoked: bool) -> int:
        """Close a session's sockets in every worker and let it open no new one; how many workers were told.

        None is told if HAProxy does not run, or not answer: then ask again, its sockets may be alive.
        """
        informed: set[int] = set()
        end = time.monotonic() + REFUSE_SECONDS
        while fresh := [pid for pid in await self._workers_patiently() if pid not in informed]:
            # Close first in all of them: the bound on time is for the sockets, the tidying can wait.
            closed = await asyncio.gather(*(self._close(pid, session, revoked) for pid in fresh))
            informed.update(pid for pid, done in zip(fresh, closed, strict=True) if done)
            # However late it is: those that have closed them are done.
            if not all(closed) and time.monotonic() > end:
                return 0
        # A desktop that was slow to answer the upgrade may have completed it between the two commands.
        await asyncio.sleep(SECOND_SWEEP_SECONDS)
        # An old worker leaves with its last socket, and would keep us waiting for an answer.
        for pid in sorted(informed & set(await self.workers())):
            await self._close(pid, session, revoked)
            for route in backends_of(session.routes):
                await self._tell(pid, f"del server {backend(session.desktop, route)}/{session.id}")
        return len(informed)

    async def shut(self, pid: int, listed: Path) -> set[str] | None:
        """The desktops that a list of this worker shuts for programs; nothing if it does not answer."""
        listing = await self._tell(pid, f"show acl {listed}")
        if listing is None:
            return None
        return {words[1] for line in listing.splitlines() if len(words := line.split()) == 2}

    async def hide(self, pid: int, listed: Path, desktop: str) -> bool:
        """Let no program see a desktop through this worker, and cut what they have open; false to ask again."""
        await self._tell(pid, f"add acl {listed} {desktop}")
        if desktop not in (await self.shut(pid, listed) or ()):
            return False
        there: set[str] | None = None

        def remaining(listing: str) -> set[str]:
            # Who comes now is refused, or waits for the end: those who were there are cut.
            nonlocal there
            hidden = (backend(desktop, name) for name in (COMPUTER.name, RECORDINGS))
            open_now = {stream for name in hidden for stream in streams_to(listing, name)}
            there = open_now if there is None else there & open_now
            return there

        return await self._shut(pid, remaining)

    async def show(self, pid: int, listed: Path, desktop: str) -> bool:
        """Let programs see a desktop again, as far as this list goes; false to ask again."""
        return await self._tell(pid, f"del acl {listed} {desktop}") is not None

    async def rows(self, pid: int, table: str) -> str | None:
        """The rows of a table of a worker, as it lists them; nothing if it does not answer, or not to the end."""
        listing = await self._tell(pid, f"show table {table}")
        return listing if listing is not None and listing.startswith("# table:") and listing.endswith("\n\n") else None

    async def _workers_patiently(self) -> list[int]:
        """The workers, also if the master is just replacing itself: for a moment it answers nobody then."""
        end = time.monotonic() + MASTER_AWAY_SECONDS
        while True:
            workers = await self.workers()
            if workers or time.monotonic() > end:
                return workers
            await asyncio.sleep(0.02)

    async def _close(self, pid: int, session: Session, revoked: bool) -> bool:
        """Close the session's sockets in one worker; false if it did not answer or still has some."""
        if revoked and await self._tell(pid, f"add acl {self._revoked_file} {session.id}") is None:
            return False
        for route in backends_of(session.routes):
            server = f"{backend(session.desktop, route)}/{session.id}"
            await self._tell(pid, f"set server {server} state maint")
            await self._tell(pid, f"shutdown sessions server {server}")
        # A worker that is stopping answers "Proxy is disabled" to all of the above; this works there too.
        return await self._shut(pid, lambda listing: streams_of(listing, session.id))

    async def _shut(self, pid: int, chosen: Callable[[str], Iterable[str]]) -> bool:
        """Shut what is chosen of a worker's streams until none is left; false if it does not answer, or some stay."""
        for _ in range(ROUNDS):
            listing = await self._tell(pid, "show sess")
            if listing is None:
                return False
            streams = list(chosen(listing))
            if not streams:
                return True
            for stream in streams:
                await self._tell(pid, f"shutdown session {stream}")
            await asyncio.sleep(0.02)
        return False

    async def _tell(self, pid: int, *commands: str) -> str | None:
        """Ask a worker, for several things in their order; nothing if it is gone, or the master is replacing itself."""
        try:
            return await self._ask("\n".join(f"@!{pid} {command}" for command in commands))
        except (OSError, TimeoutError):
            return None

    async def _ask(self, command: str) -> str:
        seconds = ANSWER_SECONDS + FURTHER_SECONDS * command.count("\n")
        async with self._lines, asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
            try:
                writer.write(f"{command}\n".encode())
                # The master keeps the connection until the asking side says that it has no more to ask.
                writer.write_eof()
                data = await reader.read()
                if not data:
                    # A true answer has at least a line end; the master was replaced while it was asked.
                    raise ConnectionResetError("HAProxy's master gave no answer")
                answer = data.decode(errors="replace")
                if any(words in answer for words in NOT_ASKED):
                    raise ConnectionRefusedError(answer.strip())
                return answer
            finally:
                writer.close()


def _workers_in(listing: str) -> list[int]:
    """The workers in a part of `show proc`."""
    lines = (line.split() for line in listing.splitlines())
    return [int(words[0]) for words in lines if len(words) > 1 and words[0].isdigit() and words[1] == "worker"]


def streams_to(listing: str, name: str) -> list[str]:
    """The addresses of the streams that have come to this backend, out of `show sess`."""
    return re.findall(rf"^(0x[0-9a-f]+): .* be={re.escape(name)} ", listing, re.MULTILINE)


def streams_of(listing: str, id: str) -> list[str]:
    """The addresses of the streams that go to the server called `id`, out of `show sess`."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{16,40}", id):
        raise GatewayError("session", id, "is no session id", REMEDY)
    pattern = re.compile(rf"^(0x[0-9a-f]+): .* srv={re.escape(id)}(?: |$)", re.MULTILINE)
    return pattern.findall(listing)
