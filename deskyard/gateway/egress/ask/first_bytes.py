"""The first bytes of a held connection: whom HAProxy says it is from, and which name it asks for.

What is read here only names the ticket. HAProxy reads the same bytes again when the connection is released, and
refuses it if its own reading is not the name that was allowed.
"""

import asyncio
import re
import socket
import struct
from dataclasses import dataclass

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PROXY_TCP4 = b"\x21\x11"
AUTHORITY = 2
HELLO_BYTES = 16 * 1024
_HOST = re.compile(rb"\r\nhost:[ \t]*([^\r\n:]*)(?::80)?[ \t]*(?=\r\n)", re.IGNORECASE)
_PATH = re.compile(rb"(?:GET|HEAD) /([a-z0-9.-]{0,253})[ ?]")


class Unreadable(Exception):
    """Not what the second HAProxy sends."""


@dataclass(frozen=True)
class Peer:
    """A desktop's end of a connection, and where it meant to go at the gateway."""

    address: str
    source_port: int
    own: str
    port: int

    def header(self, name: str) -> bytes:
        """The header that gives it back to HAProxy, with the name that was allowed."""
        body = socket.inet_aton(self.address) + socket.inet_aton(self.own)
        body += struct.pack(">HH", self.source_port, self.port)
        body += struct.pack(">BH", AUTHORITY, len(name)) + name.encode()
        return SIGNATURE + PROXY_TCP4 + struct.pack(">H", len(body)) + body


async def peer_of(reader: asyncio.StreamReader) -> Peer:
    """Read the header that HAProxy puts before each connection."""
    head = await reader.readexactly(16)
    body = await reader.readexactly(struct.unpack_from(">H", head, 14)[0])
    if head[:12] != SIGNATURE or head[12:14] != PROXY_TCP4 or len(body) < 12:
        raise Unreadable
    source_port, port = struct.unpack_from(">HH", body, 8)
    return Peer(socket.inet_ntoa(body[:4]), source_port, socket.inet_ntoa(body[4:8]), port)


async def hello_of(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """The first TLS record, and the server name in it."""
    head = await reader.readexactly(5)
    size = struct.unpack_from(">H", head, 3)[0]
    if head[0] != 22 or size > HELLO_BYTES:
        raise Unreadable
    record = await reader.readexactly(size)
    try:
        return head + record, server_name(record)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Unreadable from error


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, str, str]:
    """The head of an HTTP request, the host that it names and its path."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise Unreadable from error
    hosts, path = _HOST.findall(head), _PATH.match(head)
    if len(hosts) != 1:
        raise Unreadable
    try:
        return head, hosts[0].decode("ascii").lower(), path[1].decode() if path else ""
    except UnicodeDecodeError as error:
        raise Unreadable from error


def server_name(record: bytes) -> str:
    """The first host name of a ClientHello's server name; raises what reading beyond its end raises."""
    at = 4 + 2 + 32
    at += 1 + record[at]
    at += 2 + struct.unpack_from(">H", record, at)[0]
    at += 1 + record[at]
    end = at + 2 + struct.unpack_from(">H", record, at)[0]
    at += 2
    while at + 4 <= end:
        kind, size = struct.unpack_from(">HH", record, at)
        if kind == 0:
            length = struct.unpack_from(">H", record, at + 7)[0]
            name = record[at + 9 : at + 9 + length]
            if len(name) != length:
                raise IndexError
            return name.decode("ascii").lower()
        at += 4 + size
    raise IndexError
