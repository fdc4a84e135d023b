"""Asks the session service over its private line: one JSON request, one JSON answer.

Apart from the service, so that whoever asks need not import what answers.
"""

import json
import socket
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError


def ask(path: Path, request: dict[str, Any], timeout: float = 60) -> Any:
    """Send one request and wait for its answer; raises `GatewayError` if the service is down or refuses."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout)
            line.connect(str(path))
            line.sendall(json.dumps(request).encode())
            line.shutdown(socket.SHUT_WR)
            with line.makefile("rb") as stream:
                answer = json.loads(stream.read())
    except (OSError, ValueError) as error:
        reason = f"does not answer: {error}"
        remedy = "run deskyard-gateway apply, then see `systemctl status deskyard-session`"
        raise GatewayError("session service", None, reason, remedy) from error
    if "error" in answer:
        raise GatewayError(**answer["error"])
    return answer["result"]
