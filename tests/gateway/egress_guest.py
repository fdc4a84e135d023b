"""What a desktop tries, run in its namespace: reads jobs as one line of JSON, answers with one line of results.

A job is {"kind": tls | hello | http | tcp | udp | dns, "to": address, "port": number, ...}; a result is
{"outcome": word, "text": what came, "seconds": number}. Outcomes: answer, closed (at once and without a word),
refused (reset on connecting), silent (nothing came in time).
"""

import json
import socket
import ssl
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SECONDS = 8.0


def client_hello(names: bytes | None) -> bytes:
    """A TLS 1.2 ClientHello, written by hand so that its server name can be anything; None leaves it out."""
    extensions = b""
    if names is not None:
        listed = b"\0" + struct.pack(">H", len(names)) + names
        extensions = struct.pack(">3H", 0, len(listed) + 2, len(listed)) + listed
    extensions += struct.pack(">4H", 10, 4, 2, 23)
    body = b"\3\3" + bytes(range(32)) + b"\0" + struct.pack(">2H", 2, 0xC02F) + b"\1\0"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack(">H", len(message)) + message


def query(name: str, kind: int) -> bytes:
    question = b"".join(bytes([len(part)]) + part.encode("latin-1") for part in name.split(".")) + b"\0"
    return struct.pack(">6H", 7, 256, 1, 0, 0, 0) + question + struct.pack(">2H", kind, 1)


def attempt(job: dict[str, Any]) -> tuple[str, str]:
    where = (job["to"], job["port"])
    if job["kind"] in ("udp", "dns"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.settimeout(job.get("seconds", SECONDS))
            line.sendto(query(job["name"], job.get("type", 1)) if job["kind"] == "dns" else b"hello", where)
            data = line.recv(2048)
            if job["kind"] == "udp":
                return "answer", ""
            count = struct.unpack(">H", data[6:8])[0]
            found = socket.inet_ntoa(data[-4:]) if count and job.get("type", 1) == 1 else str(count)
            return "answer", f"{data[3] & 15} {found}"
    with socket.create_connection(where, job.get("seconds", SECONDS)) as line:
        if job["kind"] == "tls":
            context = ssl.create_default_context(cafile=job["authority"])
            with context.wrap_socket(line, server_hostname=job["name"]) as inside:
                inside.sendall(b"hello")
                return "answer", inside.recv(4096).decode()
        if job["kind"] == "hello":
            said = client_hello(bytes.fromhex(job["sni"]) if job["sni"] is not None else None)
        else:
            said = bytes.fromhex(job.get("say", ""))
        size = job.get("pieces", 0) or len(said) or 1
        for at in range(0, len(said), size):
            line.sendall(said[at : at + size])
            time.sleep(job.get("pause", 0))
        data = line.recv(65536)
        return ("answer", data.decode("latin-1")) if data else ("closed", "")


def result(job: dict[str, Any]) -> dict[str, Any]:
    start = time.monotonic()
    try:
        outcome, text = attempt(job)
    except ConnectionRefusedError:
        outcome, text = "refused", ""
    except TimeoutError:
        outcome, text = "silent", ""
    except ssl.SSLError as error:
        outcome, text = "closed", str(error)
    except OSError as error:
        outcome, text = "closed", str(error)
    return {"outcome": outcome, "text": text, "seconds": time.monotonic() - start}


def main() -> None:
    with ThreadPoolExecutor(32) as pool:
        for line in sys.stdin:
            print(json.dumps(list(pool.map(result, json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
