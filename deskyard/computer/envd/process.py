"""E2B's Process service: commands and terminals, their output and input."""

import asyncio
import base64
import contextlib
import signal
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.routing import BaseRoute

from deskyard.computer.caller import caller
from deskyard.computer.envd.accounts import require_account
from deskyard.computer.envd.connect import Message, client_stream, deadline, server_stream, silence, unary
from deskyard.computer.fields import Fields, wrong
from deskyard.computer.problem import Problem
from deskyard.computer.streams import or_silence
from deskyard.computer.work.output import Piece
from deskyard.computer.work.paths import resolve
from deskyard.computer.work.process import Order, Process, Size
from deskyard.computer.work.process_forms import data_of
from deskyard.computer.work.processes import Processes
from deskyard.wire.computer import SHELL

SERVICE = "/process.Process"
LATER = 0.2
STREAMS = {"stdout": "stdout", "stderr": "stderr", "terminal": "pty"}
SIGNALS = {
    "SIGNAL_SIGTERM": signal.SIGTERM,
    "SIGNAL_SIGKILL": signal.SIGKILL,
    15: signal.SIGTERM,
    9: signal.SIGKILL,
}


class ProcessService:
    """The service's methods; processes are known by their pid, or a tag."""

    def __init__(self, home: Path, processes: Processes) -> None:
        self._home = home
        self._processes = processes

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            unary(f"{SERVICE}/List", self.list),
            server_stream(f"{SERVICE}/Start", self.start),
            server_stream(f"{SERVICE}/Connect", self.connect),
            unary(f"{SERVICE}/Update", self.update),
            client_stream(f"{SERVICE}/StreamInput", self.stream_input),
            unary(f"{SERVICE}/SendInput", self.send_input),
            unary(f"{SERVICE}/SendSignal", self.send_signal),
            unary(f"{SERVICE}/CloseStdin", self.close_stdin),
        ]

    async def list(self, request: Request, message: Message) -> Message:
        """The processes that run."""
        _require(request)
        return {"processes": [_described(process) for process in self._processes.running()]}

    async def start(self, request: Request, message: Message) -> AsyncIterator[Message]:
        """Start a process and follow it; when the caller's time is over it is killed."""
        _require(request)
        process, seconds = self._processes.start(self._order(message)), deadline(request)
        if seconds is not None:
            # Also when the caller is gone by then; a moment later, so that one who is there hears of the time first.
            asyncio.get_running_loop().call_later(seconds + LATER, _kill, process)
        async for event in _followed(request, process, 0):
            yield event

    async def connect(self, request: Request, message: Message) -> AsyncIterator[Message]:
        """Follow a process that runs, from now on."""
        process = self._found(request, message)
        async for event in _followed(request, process, process.output.end):
            yield event

    async def update(self, request: Request, message: Message) -> Message:
        """Give a terminal another size."""
        process = self._found(request, message)
        if (wanted := _size(message.get("pty"))) is not None:
            process.resize(wanted)
        return {}

    async def stream_input(self, request: Request, messages: AsyncIterator[Message]) -> Message:
        """Give a process input as it comes, in order."""
        process: Process | None = None
        async for message in messages:
            if "start" in message:
                process = self._found(request, message["start"])
            elif "data" in message:
                if process is None:
                    raise wrong("start", None, "is missing", "name the process first")
                await process.write(_input(message["data"]))
        return {}

    async def send_input(self, request: Request, message: Message) -> Message:
        """Give a process input."""
        await self._found(request, message).write(_input(message))
        return {}

    async def send_signal(self, request: Request, message: Message) -> Message:
        """End a process with its group, kindly or not."""
        process, wanted = self._found(request, message), message.get("signal")
        if wanted not in SIGNALS:
            raise wrong("signal", wanted, "is neither SIGNAL_SIGTERM nor SIGNAL_SIGKILL")
        process.signal(SIGNALS[wanted])
        if SIGNALS[wanted] == signal.SIGKILL:
            # Whoever kills may look at once whether it is gone.
            await process.over.wait()
        return {}

    async def close_stdin(self, request: Request, message: Message) -> Message:
        """Tell a process that its input is over."""
        self._found(request, message).close_input()
        return {}

    def _found(self, request: Request, message: Message) -> Process:
        _require(request)
        selector = message.get("process")
        wanted = selector if isinstance(selector, dict) else {}
        for process in self._processes.running():
            if process.pid == wanted.get("pid") or (process.order.tag and process.order.tag == wanted.get("tag")):
                return process
        name = wanted.get("pid") or wanted.get("tag")
        raise Problem(HTTPStatus.NOT_FOUND, "process", name, "does not run", "list the processes that do")

    def _order(self, message: Message) -> Order:
        config = message.get("process")
        fields = Fields(config if isinstance(config, dict) else {})
        program, arguments = fields.text("cmd"), fields.take("args", None) or []
        if not isinstance(arguments, list) or not all(isinstance(part, str) for part in [program, *arguments]):
            raise wrong("args", None, "must be a list of texts")
        if not program or any("\0" in part for part in [program, *arguments]):
            raise wrong("cmd", None, "is empty, or holds a NUL character")
        cwd = resolve(self._home, fields.take("cwd", None) or "~", "cwd")
        tag, terminal = message.get("tag"), _size(message.get("pty"))
        # Clients that do not know the field expect an open input.
        stdin = message.get("stdin") is not False
        return Order((program, *arguments), cwd, fields.names("envs"), stdin, terminal, str(tag) if tag else None)


def _kill(process: Process) -> None:
    if process.end is None:
        # What runs as another account goes on: its caller hears of the time all the same.
        with contextlib.suppress(Problem):
            process.signal(signal.SIGKILL)


async def _followed(request: Request, process: Process, offset: int) -> AsyncIterator[Message]:
    reader, seconds = process.output.read_from(offset), deadline(request)
    until = None if seconds is None else asyncio.get_running_loop().time() + seconds
    try:
        yield {"event": {"start": {"pid": process.pid}}}
        async with contextlib.aclosing(or_silence(reader.next, silence(request), until)) as pieces:
            async for piece in pieces:
                if piece is not None:
                    yield {"event": _said(piece)}
                elif process.over.is_set():
                    break
                else:
                    yield {"event": {"keepalive": {}}}
        yield {"event": {"end": _end(process)}}
    except TimeoutError:
        reason = f"took longer than {seconds:g} s"
        raise Problem(HTTPStatus.GATEWAY_TIMEOUT, "command", None, reason, "give it more time") from None
    finally:
        reader.close()


def _said(piece: Piece) -> Message:
    if piece.lost:
        return {"keepalive": {}}
    return {"data": {STREAMS[piece.stream]: base64.b64encode(piece.data).decode()}}


def _end(process: Process) -> Message:
    """How a process ended, in the words that E2B's clients know."""
    assert process.end
    if process.end.signal:
        name = f"signal: {SIGNAL_WORDS.get(process.end.signal, process.end.signal.removeprefix('SIG').lower())}"
        return {"exitCode": process.end.code, "exited": False, "status": name, "error": name}
    status = f"exit status {process.end.code}"
    end: Message = {"exitCode": process.end.code, "exited": True, "status": status}
    return {**end, "error": status} if process.end.code else end


SIGNAL_WORDS = {"SIGKILL": "killed", "SIGTERM": "terminated", "SIGINT": "interrupt", "SIGHUP": "hangup"}


def _described(process: Process) -> Message:
    program, *arguments = process.order.argv
    config = {"cmd": program, "args": arguments, "envs": dict(process.order.environment), "cwd": str(process.order.cwd)}
    described: Message = {"config": config, "pid": process.pid}
    return {**described, "tag": process.order.tag} if process.order.tag else described


def _input(message: Message) -> bytes:
    given = message.get("input")
    if not isinstance(given, dict) or not ({"stdin", "pty"} & set(given)):
        raise wrong("input", None, "has neither stdin nor pty")
    return data_of(given.get("stdin", given.get("pty")))


def _size(terminal: object) -> Size | None:
    if not isinstance(terminal, dict):
        return None
    size = terminal.get("size")
    fields = Fields(size if isinstance(size, dict) else {})
    return Size(fields.integer("cols", 1, 1000, 80), fields.integer("rows", 1, 1000, 24))


def _require(request: Request) -> None:
    caller(request).require(SHELL)
    require_account(request)
