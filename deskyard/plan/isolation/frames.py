"""Ethernet frames byte by byte: what an honest network stack would never send."""

import struct
from ipaddress import IPv4Address, IPv6Address

BROADCAST = "ff:ff:ff:ff:ff:ff"
ARP, IPV4, IPV6, VLAN, QINQ, LLDP, EXPERIMENTAL = 0x0806, 0x0800, 0x86DD, 0x8100, 0x88A8, 0x88CC, 0x88B5
REQUEST, REPLY = 1, 2
# The VLAN number that means no VLAN (IEEE 802.1Q): the tag tells how urgent a frame is.
PRIORITY = 0
ICMP, UDP, TCP, IN_IPV4, IN_IPV6, GRE, ICMPV6, SCTP = 1, 17, 6, 4, 41, 47, 58, 132
MORE_FRAGMENTS = 0x2000


def ethernet(target: str, source: str, kind: int, payload: bytes) -> bytes:
    """A frame, as long as the shortest; `kind` is its EtherType."""
    return _mac(target) + _mac(source) + struct.pack(">H", kind) + payload.ljust(46, b"\0")


def tagged(frame: bytes, *tags: tuple[int, int]) -> bytes:
    """The same frame with VLAN tags (EtherType, VLAN number), the outer one first."""
    inserted = b"".join(struct.pack(">HH", kind, number) for kind, number in tags)
    return frame[:12] + inserted + frame[12:]


def arp(operation: int, source: tuple[str, str], target: tuple[str, str], mark: bytes) -> bytes:
    """An ARP message of MAC and address pairs, with a mark where padding would be."""
    head = struct.pack(">HHBBH", 1, IPV4, 6, 4, operation)
    pairs = b"".join(_mac(mac) + IPv4Address(address).packed for mac, address in (source, target))
    return head + pairs + mark


def ipv4(source: str, target: str, protocol: int, payload: bytes, options: bytes = b"", fragment: int = 0) -> bytes:
    """An IPv4 packet; `fragment` is the field of flags and offset."""
    words = 5 + len(options) // 4
    addresses = IPv4Address(source).packed + IPv4Address(target).packed
    length = 4 * words + len(payload)
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, length, 0x4459, fragment, 64, protocol, 0)
    checked = checksum(head + addresses + options)
    return head[:10] + struct.pack(">H", checked) + addresses + options + payload


def udp(source_port: int, target_port: int, payload: bytes) -> bytes:
    """UDP without a checksum, which IPv4 allows."""
    return struct.pack(">HHHH", source_port, target_port, 8 + len(payload), 0) + payload


def syn(source: str, target: str, ports: tuple[int, int], payload: bytes) -> bytes:
    """A whole IPv4 packet that begins a TCP connection and already carries data, as fast open does."""
    segment = struct.pack(">HHIIBBHHH", *ports, 0x44590000, 0, 5 << 4, 2, 64240, 0, 0) + payload
    pseudo = IPv4Address(source).packed + IPv4Address(target).packed + struct.pack(">HH", TCP, len(segment))
    return ipv4(source, target, TCP, segment[:16] + struct.pack(">H", checksum(pseudo + segment)) + segment[18:])


def icmp(kind: int, code: int, rest: bytes, payload: bytes) -> bytes:
    """An ICMP message; `rest` are the four bytes after its checksum."""
    body = rest + payload
    return struct.pack(">BBH", kind, code, checksum(struct.pack(">BBH", kind, code, 0) + body)) + body


def ipv6(source: str, target: str, following: int, payload: bytes) -> bytes:
    """An IPv6 packet with the hop limit that neighbour discovery demands."""
    head = struct.pack(">IHBB", 6 << 28, len(payload), following, 255)
    return head + IPv6Address(source).packed + IPv6Address(target).packed + payload


def icmpv6(source: str, target: str, kind: int, body: bytes) -> bytes:
    """A whole IPv6 packet with an ICMPv6 message, checksum and all: hosts believe no other."""
    return ipv6(source, target, ICMPV6, _checked(source, target, ICMPV6, struct.pack(">BBH", kind, 0, 0) + body, 2))


def udp6(source: str, target: str, ports: tuple[int, int], payload: bytes) -> bytes:
    """A whole IPv6 packet with UDP, whose checksum is not optional here."""
    segment = struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload
    return ipv6(source, target, UDP, _checked(source, target, UDP, segment, 6))


def router_advertisement(source: str, mac: str, mark: bytes, resolver: str | None = None) -> bytes:
    """Says: I am your router (and, with `resolver`, your DNS server), for no time at all, so that it harms nobody."""
    body = struct.pack(">BBHII", 64, 0, 0, 0, 0) + b"\x01\x01" + _mac(mac)
    if resolver is not None:
        body += struct.pack(">BBHI", 25, 3, 0, 0) + IPv6Address(resolver).packed
    return icmpv6(source, "ff02::1", 134, body + _option(mark))


def neighbour_redirect(source: str, target: str, mark: bytes) -> bytes:
    """Says: send what is for `target` to me."""
    body = bytes(4) + IPv6Address(source).packed + IPv6Address(target).packed
    return icmpv6(source, "ff02::1", 137, body + _option(mark))


def neighbour_solicitation(source: str, target: str, mark: bytes) -> bytes:
    """Asks who has `target`."""
    return icmpv6(source, "ff02::1", 135, bytes(4) + IPv6Address(target).packed + _option(mark))


def dhcp_offer(server: str, offered: str, mac: str, mark: bytes) -> bytes:
    """The answer of a DHCP server that is none: router and resolver are itself."""
    addresses = IPv4Address(0).packed + IPv4Address(offered).packed + IPv4Address(server).packed + bytes(4)
    head = struct.pack(">4BIHH", 2, 1, 6, 0, 7, 0, 0x8000) + addresses + _mac(mac).ljust(16, b"\0") + bytes(192)
    own = IPv4Address(server).packed
    options = b"\x63\x82\x53\x63" + bytes([53, 1, 2, 54, 4]) + own + bytes([3, 4]) + own + bytes([6, 4]) + own
    return udp(67, 68, head + options + bytes([255]) + mark)


def checksum(data: bytes) -> int:
    """The internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def link_local(mac: str) -> str:
    """The IPv6 address that an interface gives itself by its MAC address (RFC 4291, appendix A)."""
    octets = _mac(mac)
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]))


def _checked(source: str, target: str, protocol: int, segment: bytes, at: int) -> bytes:
    pseudo = IPv6Address(source).packed + IPv6Address(target).packed + struct.pack(">II", len(segment), protocol)
    found = checksum(pseudo + segment) or 0xFFFF
    return segment[:at] + struct.pack(">H", found) + segment[at + 2 :]


def _option(mark: bytes) -> bytes:
    """An option of neighbour discovery that nobody knows and everybody skips."""
    eights = -(-(len(mark) + 2) // 8)
    return bytes([253, eights]) + mark.ljust(8 * eights - 2, b"\0")


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
