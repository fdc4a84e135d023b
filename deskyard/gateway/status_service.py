"""Answers how the gateway is on a socket that systemd hands over, from a program that stays for the next question.

To start a program for each would keep an emulated gateway busy for three seconds, which desktops that boot want.
"""

import contextlib
import json
import socket
import socketserver
import threading
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.machine import systemd
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Machine, System
from deskyard.gateway.status import status

ASKED = {"command": "status"}
ROUTE_SECONDS, READ_SECONDS = 5.0, 10.0
MOST_BYTES, MOST_AT_ONCE = 4096, 4


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
    """Answers each question in a thread of its own, a few at a time, on a socket that it was handed."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, layout: Layout, system: System) -> None:
        super().__init__("", _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self._layout, self._system = listener, layout, system
        self._turns = threading.Semaphore(MOST_AT_ONCE)

    def answer(self, asked: Any) -> dict[str, Any]:
        """The status by the settings that are in force now, or why there is none."""
        try:
            if asked != ASKED:
                raise GatewayError("request", None, "is no question for the status", "use deskyard-gateway status")
            settings = in_force(self._layout) if self._layout.settings_file.exists() else None
            with self._turns:
                return {"result": status(settings, self._layout, self._system, ROUTE_SECONDS)}
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
