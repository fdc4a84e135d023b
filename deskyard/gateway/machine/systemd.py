"""Talks to the service manager that started this process, if one did."""

import os
import socket


def notify(state: str) -> None:
    """Say how this process is; `READY=1` when requests are answered from now on."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        line.sendall(state.encode())
