"""Ports of this machine for servers that a test starts."""

import os
import random
import socket
from collections import deque

RANGES = max(10, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
# What was given out lately may not be in use yet, or not now.
GIVEN: deque[int] = deque(maxlen=300)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, by TCP or UDP, below those that the kernel gives to clients.

    The processes of a parallel run have ranges of their own: between its choice and its use, or while a gateway is
    down, another would take a port.
    """
    size = 15000 // RANGES
    start = 15000 + size * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % RANGES)
    found: list[int] = []
    while len(found) < count:
        # Even ones, each with the port after it: the service and its peers take two in a row.
        port = start + 2 * random.randrange(size // 2)
        if port in GIVEN:
            continue
        try:
            for free in (port, port + 1):
                socket.create_server(("", free)).close()
                # A gateway that was given it long ago may hear HAProxy's refusals there, and have no other listener.
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
                    datagrams.bind(("", free))
        except OSError:
            continue
        GIVEN.append(port)
        found.append(port)
    return found
