"""Answers how the gateway is on a socket that systemd hands over, from a program that stays for the next question.

To start a program for each would keep an emulated gateway busy for three seconds, which desktops that boot want. So
would a look at every desktop for each of many who wait for their own: those who ask at once share an answer. Who waits
for desktops need not ask again and again: the program looks again for them, and answers when there is news.
"""

import contextlib
import json
import socket
import socketserver
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.machine import systemd
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Machine, System
from deskyard.gateway.shared_answer import SharedAnswer
from deskyard.gateway.status import among, status_in_force

ASKED = {"command": "status"}
ROUTE_SECONDS, READ_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 10.0, 60.0
# Desktops that start want the processor, so whoever waits lets it rest for three times as long as a look kept it busy.
PAUSE_SECONDS, PAUSE_PER_LOOK = 0.5, 3.0
MOST_BYTES = 1 << 16
# The desktops that are asked about; None for all.
Names = frozenset[str] | None


class _Handler(socketserver.StreamRequestHandler):
    """Answers one question: a line of JSON each way."""

    timeout = READ_SECONDS
    server: "StatusServer"

    def handle(self) -> None:
        try:
            asked = json.loads(self.rfile.readline(MOST_BYTES))
        except (ValueError, TimeoutError):
            asked = None
        with contextlib.suppress(OSError):
            self.wfile.write(json.dumps(self.server.answer(asked)).encode() + b"\n")


class StatusServer(socketserver.ThreadingUnixStreamServer):
    """Answers each question in a thread of its own, on a socket that it was handed."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, layout: Layout, system: System) -> None:
        super().__init__("", _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._layout, self._system = layout, system
        self._status = SharedAnswer(self._look)
        self._ended = threading.Event()

    def answer(self, asked: Any) -> dict[str, Any]:
        """The status by the settings that are in force now, or why there is none."""
        try:
            names, seconds = _question(asked)
            return {"result": self._awaited(names, seconds) if seconds else self._about(names)}
        except GatewayError as error:
            return {"error": error.as_dict()}

    def server_close(self) -> None:
        """Let nobody wait any longer."""
        self._ended.set()
        super().server_close()

    def _awaited(self, names: Names, seconds: float) -> dict[str, Any]:
        """The status once all is ready, a route's answer is another one, or the time is over.

        `waited` says whether it was not so at once.
        """
        end = time.monotonic() + seconds
        first: dict[str, Any] = {}
        while True:
            busy = time.process_time()
            found = self._about(names)
            pause = max(PAUSE_PER_LOOK * (time.process_time() - busy), PAUSE_SECONDS)
            left = end - time.monotonic()
            news = first and _answering(found) != _answering(first)
            if found["ready"] or news or left <= 0 or self._ended.wait(min(pause, left)):
                return {**found, "waited": bool(first)}
            first = first or found

    def _about(self, names: Names) -> dict[str, Any]:
        found = self._status.get(names)
        return found if names is None else among(found, names)

    def _look(self, questions: Sequence[Names]) -> dict[str, Any]:
        """Look once for all who ask: at each desktop that any of them named."""
        named = [names for names in questions if names is not None]
        every = frozenset[str]().union(*named) if len(named) == len(questions) else None
        return status_in_force(self._layout, self._system, ROUTE_SECONDS, every)


def _answering(found: Mapping[str, Any]) -> dict[str, set[str]]:
    """The routes that answer, by desktop."""
    return {
        name: {route for route, answer in routes.items() if answer["ready"]}
        for name, routes in found["desktops"].items()
    }


def _question(asked: Any) -> tuple[Names, float]:
    """The desktops that a request is about, and for how many seconds their news are waited for."""
    match asked:
        case {"command": "status", "desktops": list(names), "wait": int() | float() as wait, **rest} if not rest:
            if all(isinstance(name, str) for name in names) and wait is not True and 0 < wait <= LONGEST_WAIT_SECONDS:
                return frozenset(names), wait
        case {"command": "status", "desktops": list(names), **rest} if not rest:
            if all(isinstance(name, str) for name in names):
                return frozenset(names), 0.0
        case {"command": "status", **rest} if not rest:
            return None, 0.0
    raise GatewayError("request", None, "is no question for the status", "use deskyard-gateway status")


def serve(layout: Layout) -> None:
    """Answer until it is ended; raises `GatewayError` without a socket from systemd."""
    handed = systemd.listener()
    if handed is None:
        remedy = "let systemd start it: systemctl start deskyard-status.socket"
        raise GatewayError("socket", None, "was not handed over", remedy)
    with StatusServer(handed, layout, Machine()) as server:
        server.serve_forever()
