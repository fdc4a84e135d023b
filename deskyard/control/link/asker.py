"""Asks gateways with the link key, over connections that another process has opened; what they answer is theirs.

One connection to a gateway serves all questions, as long as it lasts.
"""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeoutError
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from deskyard.access import gateway_program
from deskyard.access.gateway_program import Rubbish
from deskyard.errors import DeskyardError, SiteError
from deskyard.guest.link_account import ACCOUNT

T = TypeVar("T")
CONNECT_SECONDS, ASK_SECONDS = 60.0, 120.0
# A gateway that says nothing for so long is given up.
SILENT_SECONDS, SILENT_TIMES = 15, 4
MOST_ANSWER, BLOCK = 16 << 20, 1 << 16
# Of what a gateway has not read yet.
MOST_UNREAD = 4 << 20
WAY_SECONDS = 90.0
# Each may take so long to open, where a machine is gone; asyncio's own threads would be six on a small host.
MOST_WAYS = 512
PASSED = (asyncssh.Error, OSError, TimeoutError, WaitTimeoutError)


class Asker:
    """Who asks gateways; `way` is the socket of who opens connections to them."""

    def __init__(self, way: Path) -> None:
        self._way = way
        self._kept: dict[str, asyncssh.SSHClientConnection] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._ways = ThreadPoolExecutor(MOST_WAYS, "way")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="asker", daemon=True).start()

    def gateways(self) -> list[str]:
        """The workspaces that are declared."""
        return [str(name) for name in self._ask_way({"gateways": True})[0]["gateways"]]

    def asks(self, name: str) -> bool:
        """Whether a person is asked about names in a workspace."""
        return bool(self._ask_way({"asks": name})[0]["asks"])

    def ask(self, name: str, words: Sequence[str]) -> Any:
        """A gateway's answer; raises `SiteError` if there is none, `Rubbish` for one that cannot be understood."""
        code, text, said = self._wait(name, self._asked(name, words), ASK_SECONDS)
        if code not in (0, 1) or not text:
            raise _silent(name, f"did not answer ({code}): {said}")
        return gateway_program.understood(name, text)

    def follow(self, name: str, words: Sequence[str]) -> Iterator[Any]:
        """The documents that a gateway writes, a line each, for as long as they are wanted."""
        with self._open(name, words, asyncssh.DEVNULL) as process:
            yield from self.read(name, process)

    @contextlib.contextmanager
    def converse(self, name: str, words: Sequence[str]) -> Iterator["TalkLine"]:
        """A line to a gateway on which documents go both ways, for as long as it is wanted."""
        with self._open(name, words, asyncssh.PIPE) as process:
            yield TalkLine(self, name, process)

    @contextlib.contextmanager
    def _open(self, name: str, words: Sequence[str], stdin: int) -> Iterator["asyncssh.SSHClientProcess[bytes]"]:
        process = self._wait(name, self._started(name, words, stdin), ASK_SECONDS)
        try:
            yield process
        finally:
            self._loop.call_soon_threadsafe(process.close)

    def read(self, name: str, process: "asyncssh.SSHClientProcess[bytes]") -> Iterator[Any]:
        """The documents that a gateway writes; raises `SiteError` at their end."""
        while line := self._wait(name, process.stdout.readline(), None):
            yield gateway_program.understood(name, line)
        raise _silent(name, "ended what it said")

    def write(self, process: "asyncssh.SSHClientProcess[bytes]", data: bytes) -> None:
        """Send to a gateway without waiting; one that does not read loses its line."""

        def put() -> None:
            if process.stdin.channel.get_write_buffer_size() > MOST_UNREAD:
                process.close()
            elif not process.stdin.is_closing():
                process.stdin.write(data)

        self._loop.call_soon_threadsafe(put)

    def _wait(self, name: str, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except PASSED as error:
            future.cancel()
            if isinstance(error, asyncssh.PermissionDenied):
                remedy = f"./inv workspace.up {name}"
                reason = f"has not got the link key, which {remedy} brings"
                raise SiteError("gateway", name, reason, f"run {remedy}") from error
            raise _silent(name, f"cannot be asked: {error or 'it is silent'}") from error

    async def _asked(self, name: str, words: Sequence[str]) -> tuple[int | None, str, str]:
        process = await self._started(name, words)
        try:
            answer = bytearray()
            while block := await process.stdout.read(BLOCK):
                answer += block
                if len(answer) > MOST_ANSWER:
                    raise Rubbish("gateway", name, "answers without an end", f"see ./inv workspace.status {name}")
            said = await process.stderr.read(BLOCK)
            await process.wait_closed()
            texts = [part.decode("utf-8", "replace") for part in (answer, said)]
            return process.exit_status, texts[0], texts[1].strip()[-500:]
        finally:
            process.close()

    async def _started(
        self, name: str, words: Sequence[str], stdin: int = asyncssh.DEVNULL
    ) -> "asyncssh.SSHClientProcess[bytes]":
        link = await self._connected(name)
        return await link.create_process(" ".join(words), stdin=stdin, encoding=None)

    async def _connected(self, name: str) -> asyncssh.SSHClientConnection:
        async with self._turns.setdefault(name, asyncio.Lock()):
            kept = self._kept.get(name)
            if kept is None or kept.is_closed():
                facts, way = await self._loop.run_in_executor(self._ways, self._opened, name)
                kept = self._kept[name] = await asyncssh.connect(
                    name,
                    sock=way,
                    username=ACCOUNT,
                    client_keys=[asyncssh.import_private_key(facts["key"])],
                    known_hosts=([asyncssh.import_public_key(facts["host_key"])], [], []),
                    # Nothing of the machine's own is read, or asked for another key.
                    config=None,
                    agent_path=None,
                    preferred_auth="publickey",
                    connect_timeout=CONNECT_SECONDS,
                    login_timeout=CONNECT_SECONDS,
                    keepalive_interval=SILENT_SECONDS,
                    keepalive_count_max=SILENT_TIMES,
                )
            return kept

    def _opened(self, name: str) -> tuple[dict[str, str], socket.socket]:
        facts, way = self._ask_way({"open": name})
        if way is None:
            raise _silent(name, "no way there was opened")
        return facts, way

    def _ask_way(self, question: dict[str, Any]) -> tuple[dict[str, Any], socket.socket | None]:
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(WAY_SECONDS)
                line.connect(str(self._way))
                line.sendall(json.dumps(question).encode() + b"\n")
                text, numbers, _, _ = socket.recv_fds(line, BLOCK, 1)
                way = socket.socket(fileno=numbers[0]) if numbers else None
                with line.makefile("rb") as stream:
                    answer = json.loads(text + stream.read())
        except (OSError, ValueError) as error:
            raise SiteError("link", None, f"is shown no way: {error}", "see ./inv control.status") from error
        if "error" in answer:
            raise DeskyardError(**{part: answer["error"][part] for part in ("field", "value", "reason", "remedy")})
        return answer, way


class TalkLine:
    """A line to a gateway; its documents come to an end with a `SiteError`."""

    def __init__(self, asker: Asker, name: str, process: "asyncssh.SSHClientProcess[bytes]") -> None:
        self._asker, self._name, self._process = asker, name, process

    def __iter__(self) -> Iterator[Any]:
        return self._asker.read(self._name, self._process)

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a document, without waiting for it to be read."""
        self._asker.write(self._process, json.dumps(document, ensure_ascii=False).encode() + b"\n")


def _silent(name: str, reason: str) -> SiteError:
    return SiteError("gateway", name, reason, f"see ./inv workspace.status {name}")
