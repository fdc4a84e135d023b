"""Requests for a gateway's status to the program in it that stays for them."""

from typing import Any

SOCKET = "run/deskyard-status/status.sock"


def status() -> dict[str, Any]:
    """Say what works, as `deskyard-gateway status` does."""
    return {"command": "status"}
