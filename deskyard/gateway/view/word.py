"""One word to the computer-use service of a desktop: a PUT that comes from the gateway itself, and of no session."""

import asyncio
import json
from typing import Any

ANSWER_SECONDS = 2.0
MOST_ANSWER = 4096

Where = tuple[str, int]


async def put(where: Where, path: str, word: dict[str, Any]) -> bool:
    """Say it; whether it was taken. A desktop that is frozen, older or hostile holds up nobody."""
    body = json.dumps(word)
    head = f"PUT {path} HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(*where, limit=MOST_ANSWER)
            try:
                writer.write(f"{head}{body}".encode())
                return (await reader.readuntil(b"\r\n")).split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False
