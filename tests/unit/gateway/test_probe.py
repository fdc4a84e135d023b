"""A route that answers a little at a time holds up nobody for longer than the probe was given."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from deskyard.gateway import probe

PAUSE_SECONDS = 0.02


@pytest.fixture
def dripping() -> Iterator[int]:
    """The port of a desktop that says a byte now and then, for ever."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        line, _ = listener.accept()
        with line, contextlib.suppress(OSError):
            while not ended.wait(PAUSE_SECONDS):
                line.sendall(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    yield listener.getsockname()[1]
    ended.set()
    thread.join(20)
    listener.close()
    assert not thread.is_alive()


@pytest.mark.parametrize("route", ["desktop", "terminal", "computer"])
def test_route_that_says_a_byte_now_and_then_does_not_answer(dripping: int, route: str) -> None:
    answered = probe.route(route, "127.0.0.1", dripping, timeout=0.2)
    # Its time was over, not the bytes that it may say.
    assert (answered.ready, answered.detail) in [(False, "takes too long"), (False, "timed out")]
