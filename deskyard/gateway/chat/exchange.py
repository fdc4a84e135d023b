"""The line to Mission Control's process `link`: a JSON document a line each way, over a unix socket for root alone."""

import asyncio
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from deskyard.gateway.chat.chat import Chat
from deskyard.wire.talk import MOST_NEWS

# Of what was not read yet: whoever does not read is away.
MOST_UNREAD = 1 << 20


class Exchange:
    """The newest line counts: whoever had the one before has been started anew."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, path: Path) -> asyncio.Server:
        """Listen on `path`; only root and the service's own user are answered."""
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            return await asyncio.start_unix_server(self._handle, str(path), limit=MOST_NEWS)
        finally:
            os.umask(before)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _pid, uid, _gid = struct.unpack("3i", peer)
        if uid not in (0, os.geteuid()):
            writer.close()
            return
        if self._writer is not None:
            self._writer.close()
        self._writer = writer

        def send(document: dict[str, Any]) -> None:
            if writer.transport.get_write_buffer_size() > MOST_UNREAD:
                writer.close()
            else:
                writer.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")

        try:
            self._chat.connect(send)
            while line := await reader.readline():
                self._chat.hear(json.loads(line))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            print(f"line of the chat broke: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            self._chat.disconnect(send)
            if self._writer is writer:
                self._writer = None
            writer.close()
