"""Answers how the gateway is on a socket that systemd hands over, from a program that stays for the next question.

To start a program for each would keep an emulated gateway busy for three seconds, which desktops that boot want. So
would a look at every desktop for each of many who wait for their own: those who ask at once share an answer.
"""

import contextlib
import json
import socket
import socketserver
from functools import partial
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.machine import systemd
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Machine, System
from deskyard.gateway.shared_answer import SharedAnswer
from deskyard.gateway.status import status_in_force

ASKED = {"command": "status"}
ROUTE_SECONDS, READ_SECONDS = 5.0, 10.0
MOST_BYTES = 4096


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
        self._status = SharedAnswer(partial(status_in_force, layout, system, ROUTE_SECONDS))

    def answer(self, asked: Any) -> dict[str, Any]:
        """The status by the settings that are in force now, or why there is none."""
        try:
            if asked != ASKED:
                raise GatewayError("request", None, "is no question for the status", "use deskyard-gateway status")
            return {"result": self._status.get()}
        except GatewayError as error:
            return {"error": error.as_dict()}


def serve(layout: Layout) -> None:
    """Answer until it is ended; raises `GatewayError` without a socket from systemd."""
    handed = systemd.listener()
    if handed is None:
        remedy = "let systemd start it: systemctl start deskyard-status.socket"
        raise GatewayError("socket", None, "was not handed over", remedy)
    with StatusServer(handed, layout, Machine()) as server:
        server.serve_forever()
