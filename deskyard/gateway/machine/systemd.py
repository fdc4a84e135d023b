"""Talks to the service manager that started this process, if one did."""

import os
import socket

FIRST_HANDED = 3  # sd_listen_fds(3)


def notify(state: str) -> None:
    """Say how this process is; `READY=1` when requests are answered from now on."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        line.sendall(state.encode())


def listener() -> socket.socket | None:
    """The socket that this process was handed to listen on, the first of several; None if there is none."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or int(os.environ.get("LISTEN_FDS", "0")) < 1:
        return None
    return socket.socket(fileno=FIRST_HANDED)
