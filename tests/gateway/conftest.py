"""One gateway for all tests of this folder that do not break it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.gateway.support import Gateway


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
    if os.geteuid() != 0:
        pytest.skip("needs root: HAProxy changes its user")
    for program in ("haproxy", "nft", "dnsmasq"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
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
