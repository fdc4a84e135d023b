"""Passes on what gateways answer to observer and watch, which have more rights than to ask gateways themselves."""

import contextlib
import json
import logging
import socket
import socketserver
from typing import Any

from deskyard.control.link.asker import Asker
from deskyard.errors import ConfigError, DeskyardError

READ_SECONDS = 30.0
MOST_BYTES = 1 << 16
log = logging.getLogger(__name__)


class Handler(socketserver.StreamRequestHandler):
    """Answers one question: a line of JSON each way."""

    timeout = READ_SECONDS
    server: "Server"

    def handle(self) -> None:
        """Ask the gateway, and say what it said."""
        try:
            match json.loads(self.rfile.readline(MOST_BYTES)):
                case {"workspace": str(name), "question": "status", "desktops": list(desktops)}:
                    answer = {"answer": _status(self.server.asker, name, desktops)}
                case {"workspace": str(name), "question": "list"}:
                    answer = {"answer": self.server.asker.ask(name, ["list"])}
                case {"workspace": str(name), "question": "waking", "desktop": str(desktop), "state": str(state)}:
                    answer = {"answer": self.server.asker.ask(name, ["waking", desktop, state])}
                case {"workspace": str(name), "question": "stages", "stages": str(stages)}:
                    answer = {"answer": self.server.asker.ask(name, ["stages", stages])}
                case _:
                    return
        except DeskyardError as error:
            log.info("%s does not answer: %s", name, error.reason.splitlines()[:1])
            answer = {"error": error.as_dict()}
        except (ValueError, TimeoutError):
            return
        with contextlib.suppress(OSError):
            self.wfile.write(json.dumps(answer).encode())


def _status(asker: Asker, name: str, desktops: list[str]) -> Any:
    try:
        return asker.ask(name, ["status", ",".join(map(str, desktops))])
    except ConfigError as error:
        # A gateway that was set up before knows the question after all desktops alone.
        if error.field != "question":
            raise
        return asker.ask(name, ["status"])


class Server(socketserver.ThreadingUnixStreamServer):
    """Answers each in a thread of its own, on a socket that it was handed."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, asker: Asker) -> None:
        super().__init__("", Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.asker = listener, asker
