"""Hears of packets that the firewall refused: the kernel's NFLOG over netlink."""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from deskyard.errors import GatewayError

LOG_GROUP = 5  # of the rules that log
NETLINK_NETFILTER = 12
ULOG = 4 << 8
CONFIG = ULOG | 1
REQUEST_ACK = 1 | 4
COMMAND, MODE, TIMEOUT = 1, 2, 4
BIND, COPY_PACKET = 1, 2
COPY_BYTES = 400
FLUSH_HUNDREDTHS = 10
PAYLOAD, PREFIX = 9, 10
BUFFER_BYTES = 1024 * 1024
HEADER = 20  # of netlink and of nfnetlink


@dataclass(frozen=True)
class Logged:
    """A logged packet, from its IP header on, and the word of the rule that logged it."""

    prefix: str
    packet: bytes


def listen(group: int) -> socket.socket:
    """A socket that gets the packets of a group; raises `GatewayError` if the kernel does not give them."""
    line = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    line.bind((0, 0))
    for attribute in (
        _attribute(COMMAND, struct.pack("B", BIND)),
        _attribute(MODE, struct.pack(">IBB", COPY_BYTES, COPY_PACKET, 0)),
        _attribute(TIMEOUT, struct.pack(">I", FLUSH_HUNDREDTHS)),
    ):
        body = struct.pack(">BBH", 0, 0, group) + attribute
        line.send(struct.pack("=IHHII", 16 + len(body), CONFIG, REQUEST_ACK, 1, 0) + body)
        code = struct.unpack_from("=i", line.recv(4096), 16)[0]
        if code != 0:
            line.close()
            reason = f"the kernel answers {-code} when asked for refused packets"
            raise GatewayError("firewall", group, reason, "see that nothing else listens to this NFLOG group")
    line.setblocking(False)
    return line


def packets(data: bytes) -> Iterator[Logged]:
    """The packets that a message of the kernel holds."""
    at = 0
    while at + HEADER <= len(data):
        size, kind = struct.unpack_from("=IH", data, at)
        if size < HEADER:
            return
        if kind == ULOG:
            found = dict(_attributes(data[at + HEADER : at + size]))
            prefix = found.get(PREFIX, b"").rstrip(b"\0").decode(errors="replace")
            yield Logged(prefix, found.get(PAYLOAD, b""))
        at += (size + 3) & ~3


def _attribute(kind: int, value: bytes) -> bytes:
    padding = bytes(-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), kind) + value + padding


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            return
        yield kind & 0x7FFF, data[at + 4 : at + size]
        at += (size + 3) & ~3
