"""A WebSocket that is attached to a process: its output one way; input, signals and sizes the other."""

import asyncio
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from deskyard.computer.caller import caller
from deskyard.computer.fields import Fields, decoded, query, wrong
from deskyard.computer.problem import Problem, deny
from deskyard.computer.problem import described as described_problem
from deskyard.computer.work.output import Reader
from deskyard.computer.work.process import Process
from deskyard.computer.work.process_forms import data_of, described, ending, signal_number, size
from deskyard.computer.work.processes import Processes
from deskyard.wire.computer import SHELL

GOING_AWAY = 1000


class Attachment:
    """Attaches whoever asks to a process; detaching leaves the process as it is."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one WebSocket, until the process ends or the client goes."""
        try:
            caller(websocket).require(SHELL)
            process = self._processes.find(websocket.path_params["number"])
            fields = query(websocket)
            offset = fields.integer("offset", 0, 1 << 62, 0)
            fields.done()
        except Problem as problem:
            await deny(websocket, problem)
            return
        await websocket.accept()
        reader = process.output.read_from(offset)
        both = [asyncio.create_task(_say(websocket, process, reader)), asyncio.create_task(_hear(websocket, process))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.close()
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)


async def _say(websocket: WebSocket, process: Process, reader: Reader) -> None:
    await websocket.send_json({"type": "process", **process.described()})
    while piece := await reader.next():
        await websocket.send_json({"type": "output", **described(piece)})
    await websocket.send_json({"type": "end", **ending(process)})
    await websocket.close(GOING_AWAY)


async def _hear(websocket: WebSocket, process: Process) -> None:
    while True:
        try:
            text = await websocket.receive_text()
        except (WebSocketDisconnect, KeyError):
            return
        try:
            await _do(process, decoded(text))
        except Problem as problem:
            await websocket.send_json({"type": "error", **described_problem(problem)})


async def _do(process: Process, message: dict[str, Any]) -> None:
    """Do what a message says: `input`, `close`, `signal` or `resize`."""
    fields = Fields(message)
    match fields.take("type", None):
        case "input":
            data = data_of(fields.take("data", None))
            fields.done()
            await process.write(data)
        case "close":
            fields.done()
            process.close_input()
        case "signal":
            number = signal_number(fields.text("signal"))
            fields.done()
            process.signal(number)
        case "resize":
            process.resize(size(fields))
        case other:
            raise wrong("type", other, "is none of input, close, signal, resize")
