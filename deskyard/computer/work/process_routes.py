"""The paths of the service about processes."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from deskyard.computer.answers import work as answers
from deskyard.computer.answers.answered import Answered
from deskyard.computer.caller import caller
from deskyard.computer.claims import claim, digest
from deskyard.computer.fields import Fields, body, query, wrong
from deskyard.computer.problem import Problem
from deskyard.computer.streams import ALIVE, ALIVE_SECONDS, event, last_id, or_silence, sent
from deskyard.computer.work.attach import Attachment
from deskyard.computer.work.output import Reader
from deskyard.computer.work.paths import resolve
from deskyard.computer.work.process import End, Order, Process, Size
from deskyard.computer.work.process_forms import argv_of, described, ending, signal_number, size
from deskyard.computer.work.processes import Processes
from deskyard.computer.work.telling import Telling
from deskyard.wire.computer import SHELL as SHELL_SCOPE

MOST_SECONDS = 3600
MOST_INPUT = 16 << 20


class ProcessRoutes:
    """Answers what is asked about processes."""

    def __init__(self, home: Path, processes: Processes, telling: Telling) -> None:
        self._home = home
        self._telling = telling
        self._processes = processes

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        process = "/v1/processes/{number}"
        return [
            Route("/v1/processes", self.list, methods=["GET"]),
            Route("/v1/processes", self.start, methods=["POST"]),
            Route("/v1/processes/run", self.run, methods=["POST"]),
            Route(process, self.show, methods=["GET"]),
            Route(process, self.remove, methods=["DELETE"]),
            Route(f"{process}/output", self.output, methods=["GET"]),
            Route(f"{process}/stdin", self.stdin, methods=["POST"]),
            Route(f"{process}/signal", self.signal, methods=["POST"]),
            Route(f"{process}/terminal", self.resize, methods=["POST"]),
            WebSocketRoute(f"{process}/attach", Attachment(self._processes).serve),
        ]

    async def list(self, request: Request) -> Answered[answers.Processes]:
        """The processes that run, and those that ended lately."""
        caller(request).require(SHELL_SCOPE)
        return Answered({"processes": [process.described() for process in self._processes.all()]})

    async def start(self, request: Request) -> Answered[answers.StartedProcess]:
        """Start a process, and answer at once."""
        fields = await _asked(request)
        stdin, terminal = fields.flag("stdin", False), _size(fields.take("terminal", None))
        order = self._order(fields, stdin, terminal, fields.flag("tell_output", False))
        fields.done()
        event = self._telling.last
        return Answered({**self._processes.start(order).described(), "event": event}, HTTPStatus.CREATED)

    async def run(self, request: Request) -> Answered[answers.Ran]:
        """Run a command to its end, and answer with its output; the newest of it where that is much."""
        fields = await _asked(request)
        seconds, encoding = fields.number("timeout", 0.001, MOST_SECONDS, 60), fields.text("encoding", "text")
        given = fields.take("stdin", None)
        if encoding not in ("text", "base64"):
            raise wrong("encoding", encoding, "must be text or base64")
        if given is not None and not isinstance(given, str):
            raise wrong("stdin", None, "must be text")
        order = self._order(fields, stdin=given is not None)
        fields.done()
        process = self._processes.start(order)
        late = await self._finished(process, given, seconds)
        if process.end:
            # It has been told all of it: nobody asks again.
            self._processes.forget(process)
        return Answered(_result(process, encoding, late))

    async def show(self, request: Request) -> Answered[answers.Process]:
        """A process."""
        return Answered(self._found(request).described())

    async def remove(self, request: Request) -> Answered[answers.Process]:
        """Kill a process with its group, and forget it."""
        process = self._found(request)
        await self._processes.end(process)
        self._processes.forget(process)
        return Answered(process.described())

    async def output(self, request: Request) -> Response:
        """Send the output of a process as server-sent events, from a position on, and at last how it ended."""
        process = self._found(request)
        fields = query(request)
        offset = fields.integer("offset", 0, 1 << 62, last_id(request, 0))
        fields.done()
        return sent(_events(process, process.output.read_from(offset)))

    async def stdin(self, request: Request) -> Answered[answers.Taken]:
        """Give a process the request's body as input; `close=true` ends its input after that."""
        process = self._found(request)
        fields = query(request)
        close = fields.flag("close", False)
        fields.done()
        taken = 0
        async for chunk in request.stream():
            taken += len(chunk)
            if taken > MOST_INPUT:
                status, reason = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"is more than {MOST_INPUT} bytes"
                raise Problem(status, "stdin", None, reason, "send it in parts, or as a file")
            await process.write(chunk)
        if close:
            process.close_input()
        return Answered({"bytes": taken})

    async def signal(self, request: Request) -> Response:
        """Send a process, with its group, a signal."""
        process, fields = self._found(request), await body(request)
        number = signal_number(fields.text("signal"))
        fields.done()
        process.signal(number)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def resize(self, request: Request) -> Response:
        """Give a process's terminal another size."""
        process, fields = self._found(request), await body(request)
        process.resize(size(fields))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def _found(self, request: Request) -> Process:
        caller(request).require(SHELL_SCOPE)
        return self._processes.find(request.path_params["number"])

    def _order(self, fields: Fields, stdin: bool, terminal: Size | None = None, tells_output: bool = False) -> Order:
        argv, tag = argv_of(fields.take("command", None)), fields.take("tag", None)
        if tag is not None and not isinstance(tag, str):
            raise wrong("tag", tag, "must be text")
        cwd = resolve(self._home, fields.text("cwd", "~"), "cwd")
        # Claimed as it is asked: a command that does not start is told by the answer's status.
        claim({"kind": "process", "scope": SHELL_SCOPE, "command_sha256": digest("\0".join(argv))})
        return Order(argv, cwd, fields.names("environment"), stdin, terminal, tag, tells_output)

    async def _finished(self, process: Process, given: str | None, seconds: float) -> bool:
        """Feed a process and wait for its end; whether it took too long. Then it is killed, if it can be."""
        try:
            async with asyncio.timeout(seconds):
                if given is not None:
                    await _feed(process, given.encode())
                await process.over.wait()
        except TimeoutError:
            with contextlib.suppress(Problem):
                await self._processes.end(process)
            return True
        except BaseException:
            with contextlib.suppress(Problem):
                await self._processes.end(process)
            raise
        return False


async def _feed(process: Process, data: bytes) -> None:
    # As in any shell: it may end or close its input before it has read all, and take as long for it as the command may.
    with contextlib.suppress(Problem):
        await process.write(data, None)
    with contextlib.suppress(Problem):
        process.close_input()


async def _events(process: Process, reader: Reader) -> AsyncIterator[bytes]:
    try:
        yield event("process", process.described(), reader.offset)
        async for piece in or_silence(reader.next, ALIVE_SECONDS):
            if piece is None:
                if process.over.is_set():
                    break
                yield ALIVE
                continue
            yield event("output", described(piece), piece.end)
        yield event("end", ending(process), reader.offset)
    finally:
        reader.close()


def _size(value: Any) -> Size | None:
    if value is None or value is False:
        return None
    if value is True:
        return Size()
    if not isinstance(value, dict):
        raise wrong("terminal", value, "must be true, or columns and rows")
    return size(Fields(value))


async def _asked(request: Request) -> Fields:
    caller(request).require(SHELL_SCOPE)
    return await body(request)


def _result(process: Process, encoding: str, timed_out: bool) -> answers.Ran:
    """The whole output of a process that has ended, or is left to itself because it cannot be ended."""
    said = {"stdout": bytearray(), "stderr": bytearray()}
    position = process.output.start
    while piece := process.output.after(position):
        said[piece.stream] += piece.data
        position = piece.end
    texts = {
        name: base64.b64encode(data).decode() if encoding == "base64" else data.decode(errors="replace")
        for name, data in said.items()
    }
    end = process.end or End(-1, None)
    return {
        "pid": process.pid, "exit_code": end.code, "signal": end.signal, "timed_out": timed_out,
        "stdout": texts["stdout"], "stderr": texts["stderr"], "lost_bytes": process.output.start,
        "untrusted": list(texts),
    }  # fmt: skip
