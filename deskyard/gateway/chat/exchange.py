"""The line to Mission Control's process `link`: a JSON document a line each way, over a unix socket for root alone."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from deskyard.gateway.chat.chat import Chat
from deskyard.gateway.machine.private_socket import asking_user, is_private, listen
from deskyard.wire.talk import MOST_NEWS

# Of what was not read yet: whoever does not read is away.
MOST_UNREAD = 1 << 20


class Exchange:
    """The newest line counts: whoever had the one before has been started anew."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, path: Path) -> asyncio.Server:
        """Listen on `path`."""
        return await listen(self._handle, path, MOST_NEWS)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not is_private(asking_user(writer)):
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
