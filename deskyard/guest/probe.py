"""Runs in a machine for one verification: sends probes, watches for marked frames, writes nothing, leaves nothing.

Sent over standard input and run by `python3 -c`, so it knows only the standard library of Python 3.11 and later. It
reads a job (one line of JSON), says `ready` when its watchers watch, and runs one group of probes for each line `go`,
printing their outcomes. When standard input says `stop` or ends, it prints what it saw. It ends by itself after the
job's seconds.
"""

import base64
import contextlib
import fcntl
import json
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

EVERY_PROTOCOL = 0x0003
SEEN_LEAVING = 4  # PACKET_OUTGOING
HARDWARE_ADDRESS = 0x8927  # SIOCGIFHWADDR
PROMISCUOUS = struct.Struct("iHH8s")
INDEX_DIGITS = 4
COPIES = 3
WORKERS = 96
# What the Plan calls a NIC of this machine -> what the machine calls it.
DEVICES: dict[str, str] = {}


def device(name: str, mac: str) -> str:
    """The NIC with this MAC address: by the Plan's name if it has it, else by the one that it has here."""
    with socket.socket() as line:
        found = [nic for _, nic in sorted(socket.if_nameindex()) if hardware_address(line, nic) == mac.lower()]
    return name if name in found else next(iter(found), name)


def hardware_address(line: socket.socket, interface: str) -> str:
    """The MAC address of an interface; nothing if it has just gone."""
    try:
        reply = fcntl.ioctl(line, HARDWARE_ADDRESS, struct.pack("256s", interface.encode()))
    except OSError:
        return ""
    return reply[18:24].hex(":")


class Watcher(threading.Thread):
    """Notes which marks pass an interface, and in which direction."""

    def __init__(self, interface: str, mark: bytes) -> None:
        super().__init__(daemon=True)
        self.interface, self.mark = interface, mark
        self.seen: set[tuple[str, str, int]] = set()
        self.line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.line.bind((DEVICES[interface], EVERY_PROTOCOL))
        member = PROMISCUOUS.pack(socket.if_nametoindex(DEVICES[interface]), 1, 0, b"")
        self.line.setsockopt(263, 1, member)  # SOL_PACKET, PACKET_ADD_MEMBERSHIP: gone with the socket

    def run(self) -> None:
        """Read until the program ends."""
        while True:
            frame, about = self.line.recvfrom(4096)
            at = frame.find(self.mark)
            if at >= 0:
                digits = frame[at + len(self.mark) : at + len(self.mark) + INDEX_DIGITS]
                direction = "out" if about[2] == SEEN_LEAVING else "in"
                with contextlib.suppress(ValueError):
                    self.seen.add((self.interface, direction, int(digits, 16)))


def tcp(probe: dict[str, Any]) -> str:
    """Connect: open, refused (somebody answered no), timeout, unreachable."""
    with socket.socket() as line:
        line.settimeout(probe["seconds"])
        line.connect((probe["address"], probe["port"]))
        return "open"


def udp(probe: dict[str, Any]) -> str:
    """Send a marked datagram and wait for any answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(probe["seconds"] / 2)
        line.connect((probe["address"], probe["port"]))
        for _ in range(2):
            line.send(base64.b64decode(probe["payload"]))
            with contextlib.suppress(TimeoutError):
                line.recv(2048)
                return "answered"
        return "timeout"


def ping(probe: dict[str, Any]) -> str:
    """Send a marked echo request; whether it arrives is for others to see."""
    payload = base64.b64decode(probe["payload"])
    head = struct.pack(">BBHHH", 8, 0, 0, 0x4459, 1)
    data = head + payload + b"\0" * (len(payload) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as line:
        for _ in range(COPIES):
            line.sendto(head[:2] + struct.pack(">H", check) + head[4:] + data[8:], (probe["address"], 0))
            time.sleep(0.05)
    return "sent"


def frame(probe: dict[str, Any]) -> str:
    """Put a frame on the wire as it is, past the own network stack."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as line:
        line.bind((DEVICES[probe["interface"]], 0))
        for _ in range(COPIES):
            line.send(base64.b64decode(probe["frame"]))
            time.sleep(0.02)
    return "sent"


def dns(probe: dict[str, Any]) -> str:
    """Ask for a name: the addresses in the answer, else `code N` (3: no such name)."""
    question = b"".join(bytes([len(part)]) + part.encode() for part in probe["name"].split(".")) + b"\0"
    asked = struct.pack(">6H", 0x4459, 256, 1, 0, 0, 0) + question + struct.pack(">2H", probe["type"], 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(probe["seconds"] / 2)
        line.connect((probe["address"], 53))
        for _ in range(2):
            line.send(asked)
            with contextlib.suppress(TimeoutError):
                return _answer(line.recv(4096), len(asked))
    return "timeout"


def _answer(data: bytes, at: int) -> str:
    code, count = data[3] & 15, struct.unpack(">H", data[6:8])[0]
    found = []
    for _ in range(count):
        while data[at] and data[at] < 0xC0:  # a name that is spelled out
            at += 1 + data[at]
        at += 2 if data[at] else 1
        kind, _, _, length = struct.unpack(">HHIH", data[at : at + 10])
        at += 10
        found.append(socket.inet_ntoa(data[at : at + 4]) if kind == 1 else f"type {kind}")
        at += length
    return " ".join(found) if found else f"code {code}"


def tls(probe: dict[str, Any]) -> str:
    """Greet over TLS with a name: handshake, or how it was refused. What the certificate says is not asked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((probe["address"], probe["port"]), probe["seconds"]) as line:
        line.settimeout(probe["seconds"])
        try:
            with context.wrap_socket(line, server_hostname=probe["name"] or None):
                return "handshake"
        except (ssl.SSLError, ConnectionError):
            return "closed"


def http(probe: dict[str, Any]) -> str:
    """Send the head of a request as it is: `status N`, or `closed`."""
    with socket.create_connection((probe["address"], probe["port"]), probe["seconds"]) as line:
        line.settimeout(probe["seconds"])
        try:
            line.sendall(probe["request"].encode("latin-1"))
            words = line.recv(4096).split()
        except ConnectionError:
            return "closed"
    return f"status {words[1].decode()}" if len(words) > 1 else "closed"


ACTIONS = {"tcp": tcp, "udp": udp, "ping": ping, "frame": frame, "dns": dns, "tls": tls, "http": http}


def run(probe: dict[str, Any]) -> str:
    """The outcome of a probe in one or two words."""
    try:
        return ACTIONS[probe["do"]](probe)
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return f"unreachable ({error.strerror})"


def main() -> None:
    """Do the job that standard input names."""
    job = json.loads(sys.stdin.readline())
    signal.alarm(job["seconds"])
    DEVICES.update({name: device(name, mac) for name, mac in job["watch"].items()})
    watchers = [Watcher(interface, job["mark"].encode()) for interface in job["watch"]]
    for watcher in watchers:
        watcher.start()
    print("ready", flush=True)
    for group in job["groups"]:
        if sys.stdin.readline().strip() != "go":
            return
        with ThreadPoolExecutor(WORKERS) as pool:
            print(json.dumps(list(pool.map(run, group))), flush=True)
    sys.stdin.readline()
    print(json.dumps(sorted({sighting for watcher in watchers for sighting in watcher.seen.copy()})), flush=True)


if __name__ == "__main__":
    main()
