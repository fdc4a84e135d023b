"""Clients and desktops that make load on a gateway: WebSockets by the thousand, on loopback alone."""

import asyncio
import base64
import contextlib
import hashlib
import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from deskyard.gateway.view.websocket import BINARY, PING, frame, mask
from tests.gateway.desktops import GUID

CHUNK = bytes(64 * 1024)
SWITCH = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n"
)
KEY = re.compile(rb"sec-websocket-key: *([^\r]+)", re.IGNORECASE)
OPEN_AT_ONCE = 32  # each handshake has ten seconds, also where the processor is shared
HEAD_SECONDS = 30.0
PAUSE_SECONDS = 0.005
PRESS = b"".join(frame(BINARY, bytes([byte])) for byte in b"\x04\x01\0\0\0\0\0k")

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Target:
    """Where a client goes, and what it asks there; `trust` is none for plain TCP."""

    port: int
    head: bytes
    trust: ssl.SSLContext | None
    hostname: str
    address: str = "127.0.0.1"

    async def open(self) -> Line:
        """An open WebSocket; raises `ConnectionError` with the answer if it is refused."""
        name = self.hostname if self.trust else None
        reader, writer = await asyncio.open_connection(self.address, self.port, ssl=self.trust, server_hostname=name)
        writer.write(self.head)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
        if not head.startswith(b"HTTP/1.1 101"):
            raise ConnectionError(head.split(b"\r\n")[0].decode())
        return reader, writer


def upgrade_head(path: str, authority: str, **headers: str) -> bytes:
    """The request of a WebSocket."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {authority}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def open_many(targets: Sequence[Target], count: int) -> list[Line]:
    """Open `count` WebSockets, spread over `targets`."""
    gate = asyncio.Semaphore(OPEN_AT_ONCE)

    async def line_of(number: int) -> Line:
        async with gate:
            return await targets[number % len(targets)].open()

    return await asyncio.gather(*(line_of(number) for number in range(count)))


async def close_all(lines: Sequence[Line]) -> None:
    """End connections without waiting for the far side's goodbye."""
    for _, writer in lines:
        writer.transport.abort()
    await asyncio.sleep(0.2)


class Desktop:
    """Plays a desktop's port: upgrades anybody, then streams (`s` and a number, bare or in a ping) or echoes."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []

    async def listen(self, address: str, port: int) -> None:
        """Serve one more address."""
        self._servers.append(await asyncio.start_server(self._serve, address, port, backlog=4096))

    async def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            found = KEY.search(head)
            accept = base64.b64encode(hashlib.sha1(found.group(1) + GUID.encode()).digest()) if found else b""
            writer.write(SWITCH.format(accept.decode()).encode())
            while data := await reader.read(65536):
                if data[0] == 0x80 | PING:
                    data = mask(data[6:], data[2:6])
                if data.startswith(b"s"):
                    await self._stream(writer, int(data[1:]))
                else:
                    writer.write(data)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def _stream(self, writer: asyncio.StreamWriter, chunks: int) -> None:
        for _ in range(chunks):
            writer.write(CHUNK)
            await writer.drain()


async def echo_times(target: Target, size: int, rounds: int) -> list[float]:
    """Seconds of each round trip of `size` bytes on one open WebSocket."""
    loop = asyncio.get_running_loop()
    reader, writer = await target.open()
    message, times = b"e" * size, []
    for _ in range(rounds):
        started = loop.time()
        writer.write(message)
        await reader.readexactly(size)
        times.append(loop.time() - started)
    await close_all([(reader, writer)])
    return times


async def stream_seconds(target: Target, chunks: int, *, framed: bool = False) -> float:
    """Seconds until `chunks` of 64 KiB came; the filter of VNC connections wants to be asked in a frame."""
    loop = asyncio.get_running_loop()
    reader, writer = await target.open()
    started, left = loop.time(), chunks * len(CHUNK)
    asked = f"s{chunks}".encode()
    writer.write(frame(PING, asked) if framed else asked)
    while left > 0:
        data = await reader.read(1 << 20)
        if not data:
            raise ConnectionError("the stream ended early")
        left -= len(data)
    seconds = loop.time() - started
    await close_all([(reader, writer)])
    return seconds


async def round_trips(target: Target, seconds: float) -> list[float]:
    """Seconds of each ping through the filter of VNC connections, for so long, with pauses as a person makes them."""
    loop = asyncio.get_running_loop()
    reader, writer = await target.open()
    message, times, end = b"e" * 20, [], loop.time() + seconds
    while (started := loop.time()) < end:
        writer.write(frame(PING, message))
        await reader.readexactly(len(message))
        times.append(loop.time() - started)
        await asyncio.sleep(PAUSE_SECONDS)
    await close_all([(reader, writer)])
    return times


async def flood(targets: Sequence[Target]) -> None:
    """Send key presses in frames of one byte, to one target after the other as each is cut off."""
    for target in targets:
        await _press(target, 500, 0)


async def steady(targets: Sequence[Target]) -> None:
    """Send the same to all at once, just below the rate at which they are cut off."""
    await asyncio.gather(*(_press(target, 1, PAUSE_SECONDS * 1.5) for target in targets))


async def _press(target: Target, times: int, pause: float) -> None:
    with contextlib.suppress(OSError):
        reader, writer = await target.open()
        writer.write(frame(BINARY, b"RFB 003.008\n\x01\x01"))
        while not reader.at_eof():
            writer.write(PRESS * times)
            await writer.drain()
            await asyncio.sleep(pause)
        writer.transport.abort()


async def until_closed(line: Line) -> float:
    """The loop's time when the far side ended this connection."""
    try:
        while await line[0].read(4096):
            pass
    except OSError:
        pass
    return asyncio.get_running_loop().time()
