"""Sockets for servers that run in the test's own process."""

import socket


def listening(address: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A TCP socket that listens, and whose connections asyncio sends on at once.

    asyncio sets TCP_NODELAY where a socket says that its protocol is TCP. Those of `create_server` do not: every second
    part of an answer waits for the client's acknowledgement of the first, which Linux holds back for 40 ms.
    """
    return socket.socket(fileno=socket.create_server((address, port)).detach())
