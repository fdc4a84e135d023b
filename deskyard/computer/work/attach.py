"""A WebSocket that is attached to a process: its output one way; input, signals and sizes the other."""

import asyncio
from typing import Any

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from deskyard.computer.caller import caller
from deskyard.computer.problem import Problem
from deskyard.computer.problem import described as described_problem
from deskyard.computer.work.bodies import Fields, bad, decoded
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
            fields = Fields(websocket.query_params)
            offset = fields.whole("offset", 0, 0, 1 << 62)
            fields.end()
        except Problem as problem:
            await websocket.send_denial_response(JSONResponse(described_problem(problem), int(problem.status)))
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
    match fields.take("type"):
        case "input":
            data = data_of(fields.take("data"))
            fields.end()
            await process.write(data)
        case "close":
            fields.end()
            process.close_input()
        case "signal":
            number = signal_number(fields.text("signal"))
            fields.end()
            process.signal(number)
        case "resize":
            process.resize(size(fields))
        case other:
            raise bad("type", other, "is none of input, close, signal, resize")
