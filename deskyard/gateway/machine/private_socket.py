"""Unix sockets of the gateway's services on which root, and the service's own user, are answered and nobody else."""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

PEER = struct.Struct("3i")  # struct ucred: process, user, group

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listen(handle: Handle, path: Path, limit: int) -> asyncio.Server:
    """Listen on `path`, which nobody else can open; `limit` bounds a line, in bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(handle, str(path), limit=limit)
    finally:
        os.umask(before)


def asking_user(writer: asyncio.StreamWriter) -> int:
    """The number of the user whose process opened the connection, as the kernel has it."""
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    user: int = PEER.unpack(peer)[1]
    return user


def is_private(user: int) -> bool:
    """Whether a user is root or the service's own."""
    return user in (0, os.geteuid())
