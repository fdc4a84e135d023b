"""The world outside a gateway, run in its own namespace: a resolver and servers, which note who came to them.

Takes a file with JSON: {"dns": address, "records": {name: {"A": [...], "AAAA": [...]}}, "tls": [address, pem],
"ports": [...], "asked": file, "hits": file}. Records are read again for each question, so that a test can change them.
"""

import json
import socket
import ssl
import struct
import sys
import threading
from pathlib import Path
from typing import Any

LOCK = threading.Lock()


def note(path: str, text: str) -> None:
    with LOCK, Path(path).open("a") as stream:
        stream.write(text + "\n")


def resolver(plan_file: Path) -> None:
    plan: dict[str, Any] = json.loads(plan_file.read_text())
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.bind((plan["dns"], 53))
    turn = 0
    while True:
        data, sender = line.recvfrom(2048)
        at, parts = 12, []
        while data[at]:
            parts.append(data[at + 1 : at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
        name, kind = ".".join(parts).lower(), struct.unpack(">H", data[at + 1 : at + 3])[0]
        note(plan["asked"], name)
        record = json.loads(plan_file.read_text())["records"]
        record = record.get(name) or record.get("*", {})
        addresses = record.get("A", []) if kind == 1 else record.get("AAAA", []) if kind == 28 else []
        if record.get("flips") and addresses:
            turn += 1
            addresses = [addresses[turn % len(addresses)]]
        family = socket.AF_INET if kind == 1 else socket.AF_INET6
        answers = b"".join(
            struct.pack(">3HIH", 0xC00C, kind, 1, 1, 4 if kind == 1 else 16) + socket.inet_pton(family, address)
            for address in addresses
        )
        head = data[:2] + struct.pack(">5H", 0x8180 if record else 0x8183, 1, len(addresses), 0, 0)
        line.sendto(head + data[12 : at + 5] + answers, sender)


def talk(line: socket.socket, plan: dict[str, Any], context: ssl.SSLContext | None) -> None:
    """Say where the caller came to, for each thing that it says."""
    local = line.getsockname()
    note(plan["hits"], f"{local[0]}:{local[1]}")
    try:
        line.settimeout(30)
        if context is not None:
            line = context.wrap_socket(line, server_side=True)
        if local[1] == 22:
            line.sendall(f"outside {local[0]}:22\r\n".encode())
        while data := line.recv(65536):
            body = f"outside {local[0]}:{local[1]}\n"
            if data[:4] in (b"GET ", b"POST"):
                body = body.strip() + (" upgrade" if b"pgrade: h2c" in data else "") + "\n"
                body = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            line.sendall(body.encode())
    except OSError:
        pass
    finally:
        line.close()


def serve(address: str, port: int, plan: dict[str, Any], context: ssl.SSLContext | None = None) -> None:
    listener = socket.create_server((address, port), backlog=512)
    while True:
        line, _ = listener.accept()
        threading.Thread(target=talk, args=(line, plan, context), daemon=True).start()


def main() -> None:
    plan_file = Path(sys.argv[1])
    plan: dict[str, Any] = json.loads(plan_file.read_text())
    jobs = [threading.Thread(target=serve, args=("", port, plan)) for port in plan["ports"]]
    jobs += [threading.Thread(target=serve, args=(address, 443, plan)) for address in plan.get("plain", ())]
    if plan.get("dns"):
        jobs.append(threading.Thread(target=resolver, args=(plan_file,)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(plan["tls"][1])
        jobs.append(threading.Thread(target=serve, args=(plan["tls"][0], 443, plan, context)))
    for job in jobs:
        job.start()
    print("ready", flush=True)


if __name__ == "__main__":
    main()
