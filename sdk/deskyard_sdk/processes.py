"""Processes of the desktop: run, followed, fed, ended."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from deskyard_sdk.door import Door
from deskyard_sdk.errors import DesktopError
from deskyard_sdk.forms import Output, ProcessInfo, Result, known, process_info

Command = str | Sequence[str]
# A gateway ends a request that is not answered for 15 minutes: what may take longer than this is followed instead, by a
# stream that says now and then that it lives.
LONGEST_ANSWER = 240.0
# How long the output of what was killed is read.
KILLED_SECONDS = 10.0


class AsyncProcess:
    """A process that was started; it goes on without this, and can be attached to again by its `id`.

    `event` is the number of the last event before it began, to wait `after`; None of one that was got by its id.
    """

    def __init__(self, door: Door, info: ProcessInfo, event: int | None = None) -> None:
        self._door = door
        self.info = info
        self.event = event
        self._place = f"/v1/processes/{info.id}"

    @property
    def id(self) -> str:
        """By what the service knows it."""
        return self.info.id

    @property
    def pid(self) -> int:
        """Its number on the desktop."""
        return self.info.pid

    async def refresh(self) -> ProcessInfo:
        """How it is now."""
        self.info = process_info(await self._door.json("GET", self._place))
        return self.info

    async def output(self, offset: int = 0) -> AsyncGenerator[Output, None]:
        """Yield its output from a position on, up to its end; `info` then says how it ended."""
        async for event in self._door.events(f"{self._place}/output", {"offset": offset}):
            if event["event"] == "output":
                yield Output(event["stream"], event["offset"], base64.b64decode(event.get("data", "")))
        await self.refresh()

    async def wait(self) -> int:
        """Wait for its end; the exit code, -1 after a signal."""
        async for _ in self.output(self.info_end):
            pass
        assert self.info.exit_code is not None
        return self.info.exit_code

    async def write(self, data: str | bytes, close: bool = False) -> None:
        """Give it input; `close` ends its input after that."""
        content = data.encode() if isinstance(data, str) else data
        await self._door.json("POST", f"{self._place}/stdin", params={"close": close}, content=content)

    async def signal(self, name: str = "TERM") -> None:
        """Send it, with its group, a signal."""
        await self._door.json("POST", f"{self._place}/signal", json={"signal": name})

    async def resize(self, columns: int, rows: int) -> None:
        """Give its terminal another size."""
        await self._door.json("POST", f"{self._place}/terminal", json={"columns": columns, "rows": rows})

    async def kill(self) -> None:
        """Kill it with its group; the service forgets it."""
        self.info = process_info(await self._door.json("DELETE", self._place))

    async def attach(self, offset: int = 0) -> "Attached":
        """Attach to it: its output one way, input the other, on one connection."""
        return Attached(await self._door.socket(f"{self._place}/attach?offset={offset}"))

    @property
    def info_end(self) -> int:
        """A position after all that it will ever say; a reader there only waits for the end."""
        return 1 << 60


class Attached:
    """A connection to a process; closing it leaves the process as it is."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    async def output(self) -> AsyncGenerator[Output, None]:
        """Yield the output of the process, up to its end; `exit_code` then is known."""
        async for text in self._socket:
            message = json.loads(text)
            if message["type"] == "output":
                yield Output(message["stream"], message["offset"], base64.b64decode(message.get("data", "")))
            elif message["type"] == "end":
                self.exit_code = message["exit_code"]
                return

    async def write(self, data: str | bytes) -> None:
        """Type into it."""
        content = data.encode() if isinstance(data, str) else data
        await self._send(type="input", data=base64.b64encode(content).decode())

    async def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        await self._send(type="resize", columns=columns, rows=rows)

    async def close(self) -> None:
        """Detach."""
        await self._socket.close()

    async def _send(self, **message: Any) -> None:
        await self._socket.send(json.dumps(message))


class AsyncProcesses:
    """Runs commands: text is for a login shell, a list is a program with its arguments."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def run(
        self,
        command: Command,
        cwd: str = "~",
        environment: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout: float = 60,
    ) -> Result:
        """Run a command to its end; one that takes too long is killed, and `timed_out` says so.

        With `stdin` it is one request, which a gateway breaks off after 15 minutes.
        """
        if timeout > LONGEST_ANSWER and stdin is None:
            return await self._run_long(command, cwd, environment, timeout)
        asked = {**_order(command, cwd, environment), "timeout": timeout} | ({} if stdin is None else {"stdin": stdin})
        return known(Result, await self._door.json("POST", "/v1/processes/run", json=asked))

    async def _run_long(
        self, command: Command, cwd: str, environment: Mapping[str, str] | None, timeout: float
    ) -> Result:
        process, is_late = await self.start(command, cwd, environment), False
        try:
            try:
                async with asyncio.timeout(timeout):
                    await process.wait()
            except TimeoutError:
                is_late = True
                # What takes no signals is left to itself, as the service does.
                with contextlib.suppress(DesktopError):
                    await process.signal("KILL")
            return await _ended(process, is_late)
        finally:
            with contextlib.suppress(DesktopError):
                await process.kill()

    async def start(
        self,
        command: Command,
        cwd: str = "~",
        environment: Mapping[str, str] | None = None,
        stdin: bool = False,
        terminal: tuple[int, int] | None = None,
        tag: str | None = None,
        tell_output: bool = False,
    ) -> AsyncProcess:
        """Start a process, with a terminal of so many columns and rows if that is given.

        Its end is the event `process.ended`; with `tell_output` what it says is told as `process.output`, in short.
        """
        asked = {**_order(command, cwd, environment), "stdin": stdin} | ({"tag": tag} if tag else {})
        if tell_output:
            asked["tell_output"] = True
        if terminal:
            asked["terminal"] = {"columns": terminal[0], "rows": terminal[1]}
        answer = await self._door.json("POST", "/v1/processes", json=asked)
        return AsyncProcess(self._door, process_info(answer), answer.get("event"))

    async def list(self) -> "list[ProcessInfo]":
        """The processes that run, and those that ended lately."""
        answer = await self._door.json("GET", "/v1/processes")
        return [process_info(process) for process in answer["processes"]]

    async def get(self, id: str) -> AsyncProcess:
        """A process that was started before."""
        return AsyncProcess(self._door, process_info(await self._door.json("GET", f"/v1/processes/{id}")))


async def _ended(process: AsyncProcess, is_late: bool) -> Result:
    """How it ended, with all of its output that is kept; of what cannot be killed, what it said so far."""
    said = {"stdout": bytearray(), "stderr": bytearray()}
    kept = (await process.refresh()).output.start
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILLED_SECONDS if is_late else None):
            async for piece in process.output(kept):
                said.get(piece.stream, bytearray()).extend(piece.data)
    stdout, stderr = (said[name].decode(errors="replace") for name in ("stdout", "stderr"))
    info = process.info
    code = -1 if info.exit_code is None else info.exit_code
    return Result(info.pid, code, info.signal, stdout, stderr, is_late, info.output.start)


def _order(command: Command, cwd: str, environment: Mapping[str, str] | None) -> dict[str, Any]:
    given = command if isinstance(command, str) else list(command)
    return {"command": given, "cwd": cwd, "environment": dict(environment or {})}
