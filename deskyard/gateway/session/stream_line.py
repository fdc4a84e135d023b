"""The session service's end of the line to the filter of VNC connections: may it, where to, who drives, who waits,
whose agent is stopped, which programs' sessions are over."""

import asyncio
import json
import pwd
import sys
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.machine.private_socket import asking_user, is_private
from deskyard.gateway.session.refusal import status_of
from deskyard.gateway.session.sessions import Sessions

LINE_LIMIT = 1024 * 1024


class StreamLine:
    """The lines to all filters; there is one filter, and an old one for a moment while it is restarted."""

    def __init__(self, sessions: Sessions, view_user: str) -> None:
        self._sessions = sessions
        self._writers: set[asyncio.StreamWriter] = set()
        self._view_users = _uids(view_user)
        sessions.streams.line = self

    async def serve(self, path: Path) -> asyncio.Server:
        """Listen on `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._handle, str(path), limit=LINE_LIMIT)
        # Everybody may knock; who does not run as the filter's user is sent away.
        path.chmod(0o666)
        return server

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        user = asking_user(writer)
        if not is_private(user) and user not in self._view_users:
            writer.close()
            return
        self._writers.add(writer)
        try:
            self._write(writer, {**self._driving(), **self._awaited(), **self._halted(), **self._ended()})
            while line := await reader.readline():
                self._hear(writer, json.loads(line))
        except Exception as error:  # the filter makes it anew
            print(f"line to the filter broke: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            self._writers.discard(writer)
            for key in [key for key in self._sessions.streams.open if key[0] == id(writer)]:  # type: ignore[index]
                self._sessions.streams.end(key)
            writer.close()

    def _hear(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        if message["say"] == "looked":
            self._sessions.awaiting.looked(message["desktop"], dict(message["answering"]))
            return
        if message["say"] == "halted":
            self._sessions.halts.found(message["desktop"], message["still"])
            return
        key = (id(writer), int(message["stream"]))
        match message["say"]:
            case "open":
                self._write(writer, {"answer": message["stream"], **self._judge(key, message)})
            case "again":
                if not self._sessions.resume_stream(key, message):
                    self._write(writer, {"close": message["session"]})
            case "acted":
                self._sessions.streams.acted(key, float(message["at"]))
            case "closed":
                self._sessions.end_stream(key, message)

    def _judge(self, key: tuple[int, int], message: dict[str, Any]) -> dict[str, Any]:
        try:
            address, port = self._sessions.open_stream(key, message)
        except GatewayError as error:
            return {"status": int(status_of(error))}
        return {"status": 101, "address": address, "port": port, "drivers": self._sessions.streams.drivers}

    def is_open(self) -> bool:
        """Whether a filter is connected."""
        return bool(self._writers)

    def close(self, session: str) -> None:
        """Let the connections of a session end."""
        self._tell({"close": session})

    def drivers_changed(self) -> None:
        """Say who drives."""
        self._tell(self._driving())

    def awaited_changed(self) -> None:
        """Say which desktops people wait for."""
        self._tell(self._awaited())

    def halts_changed(self) -> None:
        """Say whose agents are stopped."""
        self._tell(self._halted())

    def ended_changed(self) -> None:
        """Say which sessions of programs are over."""
        self._tell(self._ended())

    def _ended(self) -> dict[str, Any]:
        return {"ended": self._sessions.ended()}

    def _halted(self) -> dict[str, Any]:
        return {"halted": self._sessions.halts.places()}

    def _awaited(self) -> dict[str, Any]:
        return {"awaited": self._sessions.awaiting.awaited()}

    def _driving(self) -> dict[str, Any]:
        return {"drivers": self._sessions.streams.drivers, "private": self._sessions.hidden()}

    def _tell(self, message: dict[str, Any]) -> None:
        for writer in self._writers:
            self._write(writer, message)

    @staticmethod
    def _write(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        writer.write(json.dumps(message).encode() + b"\n")


def _uids(user: str) -> set[int]:
    try:
        return {pwd.getpwnam(user).pw_uid}
    except KeyError:
        return set()
