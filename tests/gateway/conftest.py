"""One gateway for all tests of this folder that do not break it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.gateway.support import Gateway
from tests.support.requirements import need_programs, need_root


@pytest.fixture(scope="session")
def gateway() -> Iterator[Gateway]:
    """A running gateway with the desktops d1 and d2."""
    with run_gateway(Gateway()) as running:
        yield running


@pytest.fixture
def own_gateway() -> Iterator[Gateway]:
    """A running gateway that a test may break."""
    with run_gateway(Gateway()) as running:
        yield running


@contextmanager
def run_gateway(running: Gateway) -> Iterator[Gateway]:
    """Start a gateway; leave the test out, with the reason, where that cannot be."""
    need_root("HAProxy changes its user")
    need_programs("haproxy", "nft", "dnsmasq")
    try:
        running.start()
    except BaseException:
        for log in ("haproxy.log", "service.log", "view.log"):
            path = running.root / log
            print(path.read_text() if path.exists() else f"no {log}")
        running.stop()
        raise
    yield running
    running.stop()
