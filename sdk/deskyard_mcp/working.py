"""Tools of the scopes `files` and `shell`: files read and written, commands run, processes started and followed."""

import asyncio
import codecs
import contextlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any, Literal

from deskyard_sdk import AsyncDesktop, AsyncProcess, DesktopError, Entry, ProcessInfo
from mcp_types import CallToolResult
from pydantic import Field

from deskyard_mcp.answers import MOST_TEXT, said, short
from deskyard_mcp.offers import ACTS, LOOKS, SETS, Offer

MOST_SECONDS = 600
Path = Annotated[str, Field(description="below the home, or absolute")]
Command = Annotated[str | list[str], Field(description="a text for the shell, or a program with its arguments")]
Folder = Annotated[str, Field(description="the folder where it runs")]


class Filing:
    """The desktop's files."""

    def __init__(self, desktop: AsyncDesktop) -> None:
        self._files = desktop.files

    def offers(self) -> Sequence[Offer]:
        """The tools."""
        return [
            Offer("files", self.list_files, LOOKS),
            Offer("files", self.read_file, LOOKS),
            Offer("files", self.write_file, SETS),
        ]

    async def list_files(self, path: Path = "~", depth: Annotated[int, Field(ge=1, le=10)] = 1) -> CallToolResult:
        """List what a folder holds."""
        found = await self._files.list(path, depth)
        facts: dict[str, Any] = {"entries": [_entry(entry) for entry in found], "untrusted": ["path"]}
        return said(facts | ({"left_out": "more entries: list folders below it"} if found.truncated else {}))

    async def read_file(
        self,
        path: Path,
        start: Annotated[int, Field(description="the first byte", ge=0)] = 0,
        length: Annotated[int, Field(description="at most so many bytes", ge=1, le=MOST_TEXT)] = MOST_TEXT,
    ) -> CallToolResult:
        """Read a text file, or a part of it."""
        size = (await self._files.stat(path)).size
        data = await self._files.read(path, start, length) if start < size else b""
        try:
            text, taken = _text(data, start > 0, start + len(data) >= size)
        except UnicodeDecodeError as error:
            raise DesktopError("path", path, "is no text in UTF-8", "open it with a program of the desktop") from error
        return said({"text": text, "size": size, "next": start + taken, "untrusted": ["text"]})

    async def write_file(
        self,
        path: Path,
        text: str,
        overwrite: Annotated[bool, Field(description="whether a file that is there is replaced")] = True,
    ) -> CallToolResult:
        """Write a text file, whole or not at all; folders above it are made."""
        return said(_entry(await self._files.write(path, text, overwrite=overwrite)))


class Running:
    """Commands and processes of the desktop."""

    def __init__(self, desktop: AsyncDesktop) -> None:
        self._desktop = desktop

    def offers(self) -> Sequence[Offer]:
        """The tools."""
        return [
            Offer("shell", self.run, ACTS),
            Offer("shell", self.start, ACTS),
            Offer("shell", self.processes, LOOKS),
            Offer("shell", self.process, ACTS),
        ]

    async def run(
        self,
        command: Command,
        cwd: Folder = "~",
        stdin: str | None = None,
        timeout_seconds: Annotated[float, Field(description="then it is killed", gt=0, le=MOST_SECONDS)] = 60,
    ) -> CallToolResult:
        """Run a command to its end: output and exit code. For a program with a window, use `start`."""
        result = await self._desktop.run(command, cwd, stdin=stdin, timeout=timeout_seconds)
        (out, lost), (err, lost_too) = short(result.stdout), short(result.stderr)
        facts = {"exit_code": result.exit_code, "stdout": out, "stderr": err, "timed_out": result.timed_out}
        if result.signal:
            facts["signal"] = result.signal
        if lost or lost_too or result.lost_bytes:
            facts["left_out"] = "the oldest output: write it into a file and read that in parts"
        return said({**facts, "untrusted": ["stdout", "stderr"]})

    async def start(
        self,
        command: Command,
        cwd: Folder = "~",
        stdin: Annotated[bool, Field(description="whether it will get input")] = False,
    ) -> CallToolResult:
        """Start a program and leave it running: its id for `process`. Wait for its window by `wait`, after `event`."""
        event = await self._desktop.last_event() if self._sees() else None
        started = await self._desktop.processes.start(command, cwd, stdin=stdin)
        return said(process_facts(started.info) | ({} if event is None else {"event": event}))

    async def processes(self) -> CallToolResult:
        """List the processes that were started, also those that ended lately."""
        return said({"processes": [process_facts(info) for info in await self._desktop.processes.list()]})

    async def process(
        self,
        id: str,
        input: Annotated[str | None, Field(description="text for its standard input")] = None,
        close_input: bool = False,
        signal: Literal["INT", "TERM", "HUP", "KILL"] | None = None,
        offset: Annotated[int, Field(description="output from this position on", ge=0)] = 0,
        within_seconds: Annotated[float, Field(description="wait so long for its end", ge=0.1, le=120)] = 1,
    ) -> CallToolResult:
        """Feed or signal a process, and read what it says from a position on; `next` is where to go on."""
        process = await self._desktop.processes.get(id)
        if input is not None or close_input:
            await process.write(input or "", close=close_input)
        if signal is not None:
            await process.signal(signal)
        text, end = await _output(process, offset, within_seconds)
        return said({**process_facts(await process.refresh()), "output": text, "next": end, "untrusted": ["output"]})

    def _sees(self) -> bool:
        return "see" in self._desktop.facts.get("scopes", ["see"])


async def _output(process: AsyncProcess, offset: int, seconds: float) -> tuple[str, int]:
    """The output of a process from a position on: what there is, and what comes until its end or the time is over."""
    said_now, end = bytearray(), offset
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), aclosing(process.output(offset)) as pieces:
            async for piece in pieces:
                end = piece.offset + len(piece.data)
                said_now += piece.data
                if len(said_now) >= MOST_TEXT:
                    break
    return said_now.decode(errors="replace"), end


def _text(data: bytes, amid: bool, last: bool) -> tuple[str, int]:
    """The text of a part of a file, and how much of the part that is: it may begin or end within a character."""
    skipped = 0
    while amid and skipped < min(3, len(data)) and data[skipped] & 0xC0 == 0x80:
        skipped += 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    text = decoder.decode(data[skipped:], final=last)
    return text, len(data) - len(decoder.getstate()[0])


def _entry(entry: Entry) -> dict[str, Any]:
    return {"path": entry.path, "type": entry.type, "size": entry.size, "modified": entry.modified.isoformat()}


def process_facts(info: ProcessInfo) -> dict[str, Any]:
    """A process as facts."""
    facts = asdict(info) | {"started": info.started.isoformat()}
    return {name: value for name, value in facts.items() if value is not None and name != "output"}
