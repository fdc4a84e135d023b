"""Writes down refusals and traffic as they happen, and ends what was allowed for a time or for one connection."""

import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable

from deskyard.errors import GatewayError
from deskyard.gateway.config import egress_grants
from deskyard.gateway.config.egress_grants import Grants
from deskyard.gateway.egress import nflog, refusals, traffic
from deskyard.gateway.egress.refusals import Carried, Log, Raised
from deskyard.gateway.machine import files
from deskyard.gateway.machine.clock import Clock
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import System
from deskyard.gateway.session import line
from deskyard.wire.gateway_settings import Settings, parse

TICK_SECONDS = 1.0
RETRY_SECONDS = 10.0
LINE_BYTES = 2048
NOTE_SECONDS = 5.0


class Watcher:
    """Watches the way out of a gateway, in every mode of egress."""

    def __init__(self, layout: Layout, system: System) -> None:
        self._layout = layout
        self._system = system
        self._log = Log(layout.refusals_file)
        self._settings: Settings | None = None
        self._stamp = 0
        self._retry_at = 0.0
        self._clock = Clock(time.time)

    def run(self) -> None:
        """Watch until the process is ended."""
        packets = nflog.listen(nflog.LOG_GROUP)
        lines = self._open_socket()
        # What ended while the gateway was off, or was left half done by a power cut, is put right first.
        self._change(lambda grants: grants, even_if_same=True)
        # By itself: neither a slow disk nor a router that does not answer keeps refusals or ends waiting.
        threading.Thread(target=traffic.keep, args=(self._layout,), daemon=True).start()
        with selectors.DefaultSelector() as selector:
            selector.register(packets, selectors.EVENT_READ)
            selector.register(lines, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(TICK_SECONDS):
                    if key.fileobj is packets:
                        self._packets(packets)
                    else:
                        self._line(lines.recv(LINE_BYTES).decode(errors="replace"))
                self._look()

    def _open_socket(self) -> socket.socket:
        """Where the second HAProxy logs to: it writes, and does nothing else there."""
        path = self._layout.egress_watch / "events.sock"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        line.bind(str(path))
        path.chmod(0o622)
        return line

    def _packets(self, line: socket.socket) -> None:
        try:
            data = line.recv(65536)
        except OSError:
            return  # the kernel dropped some: it says so once, in place of them
        settings = self._current()
        if settings is None:
            return
        for logged in nflog.packets(data):
            refusal = refusals.from_firewall(logged, settings)
            if refusal is not None:
                self._log.add(refusal)

    def _line(self, text: str) -> None:
        settings = self._current()
        found = refusals.from_router(text, settings) if settings else None
        if isinstance(found, Carried):
            used = found
            self._change(lambda grants: grants.used(used.name, used.port))
        elif isinstance(found, Raised):
            self._note(found)
        elif found is not None:
            self._log.add(found)

    def _note(self, raised: Raised) -> None:
        """Put a ticket into the chain of what was decided here; it opens nothing, so it stands either way."""
        facts = {"desktop": raised.desktop, "target": f"{raised.name}:{raised.port}", "ticket": raised.ticket}
        try:
            request = {"command": "ask", "facts": {**facts, "result": "raised"}}
            line.ask(self._layout.admin_socket, request, timeout=NOTE_SECONDS)
        except GatewayError as error:
            print(f"not in the audit: ticket {facts}: {error}", file=sys.stderr, flush=True)

    def _look(self) -> None:
        self._clock.follow(self._bring_forward)
        self._end_what_is_due()

    def _bring_forward(self, seconds: float) -> bool:
        """Let nothing that was allowed for a time last longer because the clock was set back."""
        return self._may_try() and self._change(lambda grants: grants.brought_forward(round(seconds)))

    def _may_try(self) -> bool:
        return time.monotonic() >= self._retry_at

    def _end_what_is_due(self) -> None:
        text = files.read(self._layout.grants_file)
        if text is None or not self._may_try():
            return
        end = egress_grants.stored(text).next_end
        if end is not None and end <= time.time():
            self._change(lambda grants: grants, even_if_same=True)

    def _change(self, edit: Callable[[Grants], Grants], even_if_same: bool = False) -> bool:
        """Change the grants; false if they have to be changed again, later."""
        before = egress_grants.load(self._layout)
        if self._current() is None or (edit(before) == before and not even_if_same):
            return True
        try:
            # It ends a time, now and then: the watch starts with the gateway, and listens without it.
            from deskyard.gateway.config.apply import change_list

            change_list(lambda settings, grants: edit(grants), self._layout, self._system)
        except GatewayError as error:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            print(f"error: {error}", file=sys.stderr, flush=True)
            return False
        return True

    def _current(self) -> Settings | None:
        """The settings in force, read again when they change."""
        path = self._layout.settings_file
        if not path.exists():
            return None
        stamp = path.stat().st_mtime_ns
        if stamp != self._stamp:
            self._settings, self._stamp = parse(path.read_text()), stamp
        return self._settings
