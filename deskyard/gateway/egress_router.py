"""Reloads the second HAProxy, and answers only when the new list is the one in force."""

import socket
import time

from deskyard.gateway.errors import GatewayError
from deskyard.gateway.layout import Layout

RELOAD_SECONDS = 60.0
PAUSE_SECONDS = 0.02
REMEDY = "look at `journalctl -u deskyard-egress` in the gateway; the last good list is in force"


def reload(layout: Layout) -> None:
    """Ask the master for a new worker and wait for it; raises `GatewayError` if none comes."""
    before = _worker(layout)
    _ask(layout, "reload")
    end = time.monotonic() + RELOAD_SECONDS
    while True:
        found = _worker(layout)
        if found is not None and found != before:
            return
        if time.monotonic() > end:
            raise GatewayError("egress", None, "did not start with the new list", REMEDY)
        time.sleep(PAUSE_SECONDS)


def _worker(layout: Layout) -> int | None:
    """The process id of the worker that takes new connections; nothing while the master replaces itself."""
    try:
        answer = _ask(layout, "show proc")
    except OSError:
        return None
    current = answer.partition("# workers")[2].partition("# old workers")[0]
    pids = [words[0] for words in map(str.split, current.splitlines()) if words[1:2] == ["worker"]]
    return int(pids[0]) if pids else None


def _ask(layout: Layout, command: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(RELOAD_SECONDS)
        line.connect(str(layout.egress_socket))
        line.sendall(f"{command}\n".encode())
        # The master keeps the connection until the asking side says that it has no more to ask.
        line.shutdown(socket.SHUT_WR)
        parts = []
        while part := line.recv(65536):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")
