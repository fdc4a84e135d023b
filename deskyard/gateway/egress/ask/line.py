"""Asks what holds connections, on its private line."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from deskyard.errors import GatewayError

ASK_SECONDS = 15.0


def ask(path: Path, request: dict[str, Any]) -> Any:
    """Send one request and wait for its answer; raises `GatewayError` if the service is down or refuses."""
    with _line(path, request, ASK_SECONDS) as stream:
        answer = json.loads(stream.readline() or "{}")
    if "error" in answer:
        raise GatewayError(**answer["error"])
    if "result" not in answer:
        raise _silent("it said nothing")
    return answer["result"]


def follow(path: Path) -> Iterator[dict[str, Any]]:
    """Every ticket, then each as it changes; ends with the service, which is said as `GatewayError`."""
    with _line(path, {"command": "follow"}, None) as stream:
        for line in stream:
            document = json.loads(line)
            if "error" in document:
                raise GatewayError(**document["error"])
            yield document
    raise _silent("it ended")


@contextmanager
def _line(path: Path, request: dict[str, Any], seconds: float | None) -> Iterator[IO[bytes]]:
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(seconds)
            line.connect(str(path))
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as stream:
                yield stream
    except (OSError, ValueError) as error:
        raise _silent(str(error)) from error


def _silent(reason: str) -> GatewayError:
    remedy = "see `systemctl status deskyard-ask`; until it runs, what would wait is refused"
    return GatewayError("ask", None, f"does not answer: {reason}", remedy)
