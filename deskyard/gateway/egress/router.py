"""Asks the second HAProxy, and reloads it: answers only when the new list is the one in force."""

import contextlib
import math
import os
import signal
import socket
import time

from deskyard.errors import GatewayError
from deskyard.gateway.machine.layout import Layout

RELOAD_SECONDS = 60.0
ASK_SECONDS = 5.0  # a master that replaces itself forgets who was asking it
ASK_AGAIN_SECONDS = 15.0
PAUSE_SECONDS = 0.02
REMEDY = "look at `journalctl -u deskyard-egress` in the gateway; the last good list is in force"


def reload(layout: Layout) -> None:
    """Ask the master for a new worker and wait for it; raises `GatewayError` if none comes."""
    end = time.monotonic() + RELOAD_SECONDS
    before: int | None = None
    asked = -math.inf
    while True:
        found = _worker(layout)
        if before is not None and found not in (None, before):
            return
        before = before or found
        now = time.monotonic()
        if now > end:
            reason = "its HAProxy does not answer" if before is None else "did not start with the new list"
            raise GatewayError("egress", None, reason, REMEDY)
        # Not before it is known which worker is the old one, or the old one would be taken for the new one.
        if before is not None and now - asked > ASK_AGAIN_SECONDS:
            asked = now
            with contextlib.suppress(OSError):
                ask(layout, "reload")
        time.sleep(PAUSE_SECONDS)


def _worker(layout: Layout) -> int | None:
    """The process id of the worker that takes new connections; nothing while the master replaces itself."""
    try:
        current = ask(layout, "show proc").partition("# old workers")[0]
    except OSError:
        return None
    return next(iter(_pids(current)), None)


def workers(layout: Layout) -> list[int]:
    """The process ids of all workers, also of those that only keep connections of before a reload.

    Raises `OSError` while nobody can say.
    """
    return _pids(ask(layout, "show proc"))


def end_old_workers(layout: Layout) -> None:
    """End the workers of before the list in force, with each connection that they kept, and those not yet judged.

    Raises `GatewayError` if some go on.
    """
    end = time.monotonic() + RELOAD_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            old = _pids(ask(layout, "show proc").partition("# old workers")[2])
            if not old:
                return
            for worker in old:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGTERM)
        time.sleep(PAUSE_SECONDS)
    raise GatewayError("egress", None, "is closed, but connections of before may go on", "close the names again")


def _pids(processes: str) -> list[int]:
    return [int(words[0]) for words in map(str.split, processes.splitlines()) if words[1:2] == ["worker"]]


def ask(layout: Layout, command: str) -> str:
    """Send a command to HAProxy's master, or by it to a worker, for the answer; raises `OSError` if nobody answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ASK_SECONDS)
        line.connect(str(layout.egress_socket))
        line.sendall(f"{command}\n".encode())
        # The master keeps the connection until the asking side says that it has no more to ask.
        line.shutdown(socket.SHUT_WR)
        parts = []
        while part := line.recv(65536):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")
