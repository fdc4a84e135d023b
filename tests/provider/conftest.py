"""What is made over the real libvirt in a test is gone after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host.vm.accelerator import accelerator
from deskyard.site.libvirt import daemon
from tests.provider.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Everything made in a test is gone after it."""
    daemon.up(accelerator("auto"))
    with daemon.connection() as link:
        bench = Bench(link, tmp_path)
        try:
            yield bench
        finally:
            bench.clean()
